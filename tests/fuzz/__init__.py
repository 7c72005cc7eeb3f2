"""Hostile files for every reader. ``python -m tests.fuzz --inputs 1000000`` runs it at length."""
