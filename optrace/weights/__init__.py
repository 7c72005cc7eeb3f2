"""Carrying weights from one model, or one checkpoint format, to another."""
