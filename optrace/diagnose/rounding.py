"""Rounding or a real difference: both calls again in float64."""

from __future__ import annotations

import math

import numpy as np

from optrace.align.graph import Key, Node
from optrace.align.index import transposition
from optrace.align.values import LOOSE_ULPS, difference, epsilon
from optrace.diagnose.arguments import argument_differences
from optrace.diagnose.forced import Forced
from optrace.diagnose.replay import Replayer, Unreplayable
from optrace.trace.records import Call

# Two float64 runs of one function agree far better than this; float32 constants in it cost about 1e-8.
SAME = 3e-7


def same_function(forced: Forced, node: Node, raw_key: Key, base: Call, base_key: Key) -> bool:
    """Whether the two calls compute the same function of base's inputs, judged in float64.

    False where an argument differs, an input has no counterpart, or a call can't run in float64.
    """
    wanted = forced.base.trace.value(forced.base.refs[base_key])
    own = forced.own.get(raw_key)
    if wanted is None or own is None or wanted.shape != own.shape:
        return False
    eps = epsilon(str(own.dtype))
    gap = difference(wanted, own).scaled
    if not math.isfinite(gap) or gap > LOOSE_ULPS * eps or argument_differences(base, node.call):
        return False
    if not all(forced.matched(k) for k in node.inputs):
        return False
    inputs: dict[Key, np.ndarray] = {k: v for k in node.inputs if (v := forced.value(k)) is not None}
    try:
        mine = Replayer(forced.raw.trace, lift=True).run(node.call, inputs).get(raw_key)
        theirs = Replayer(forced.base.trace, lift=True).run(base, {}).get(base_key)
    except Unreplayable:
        return False
    if mine is None or theirs is None or mine.shape != theirs.shape:
        return False
    return difference(theirs, mine).scaled <= SAME or transposition(theirs, mine, "float32") is not None
