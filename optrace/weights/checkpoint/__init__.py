"""Checkpoint files: reading without running anything from them, writing one tensor at a time."""
