"""What is random in a run, and how to get past it."""

from __future__ import annotations

from optrace.randomness.audit import RandomOp, audit_random
from optrace.randomness.determinism import Divergence, check_determinism
from optrace.randomness.live import replay_random

__all__ = ["Divergence", "RandomOp", "audit_random", "check_determinism", "replay_random"]
