"""Measurements, each a script of its own; ``python -m benchmarks`` runs all."""
