"""Which raw values stand for which base values, and what follows from that for the calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from optrace.align.graph import Graph, Key, Node, uninitialised
from optrace.align.index import Match, transposition
from optrace.align.values import agree, difference
from optrace.trace.records import Call, TensorRef

# Parts of the names of calls that sum many products.
CONTRACTIONS = (
    "mm",
    "matmul",
    "linear",
    "conv",
    "einsum",
    "attention",
    "rnn",
    "lstm",
    "gru",
    "dot",
    "bilinear",
    "fft",
)


class Repair(NamedTuple):
    """From this raw value on, base's value is used although the two differ."""

    base: Key
    value: np.ndarray


class Correspondence:
    """Matches between the values of two graphs. ``outputs`` are the raw run's results."""

    def __init__(self, base: Graph, raw: Graph, outputs: frozenset[Key]) -> None:
        self.base = base
        self.raw = raw
        self.outputs = outputs
        self.matches: dict[Key, list[Match]] = {}
        self.repairs: dict[Key, Repair] = {}
        # Values that say little by themselves: masks, constants, counters.
        self.weak: set[Key] = set()
        self.unreplayable: dict[int, str] = {}
        # Values from before these graphs begin that are known to be wrong.
        self.distrusted: set[Key] = set()
        # Raw values that nothing can be said of: they depend on numbers that one run drew by itself. By which call.
        self.drawn: dict[Key, Call] = {}

    def base_keys(self, key: Key) -> frozenset[Key]:
        """Base values that a raw value stands for: equal ones, or the one it was repaired to."""
        repair = self.repairs.get(key)
        if repair is not None:
            return frozenset({repair.base})
        return frozenset(m.key for m in self.matches.get(key, ()))

    def matched(self, key: Key) -> bool:
        return key in self.repairs or bool(self.matches.get(key))

    def value(self, key: Key) -> np.ndarray | None:
        """A raw value as its consumers saw it, ``None`` when it was not kept."""
        return self.raw.trace.value(self.raw.refs[key])

    def rerun(self, node: Node, override: Mapping[str, Any]) -> dict[Key, np.ndarray]:
        """What ``node`` makes with other arguments; nothing where calls can't be run again."""
        return {}

    def stands_for(self, raw: TensorRef, base: TensorRef) -> bool:
        """Whether a raw value holds a base value's numbers, in whatever layout."""
        if base.key in self.base_keys(raw.key):
            return True
        a, b = self.base.trace.value(base), self.value(raw.key)
        if a is None or b is None:
            return True  # nothing to hold against it
        if a.size == b.size and agree(difference(a.reshape(-1), b.reshape(-1), raw.dtype), raw.dtype):
            return True
        return transposition(a, b, raw.dtype) is not None

    def reduction(self, node: Node) -> int:
        """How many products one element of the node's output sums; 1 for what is no contraction."""
        name = node.call.api.rpartition(".")[2]
        if not any(part in name for part in CONTRACTIONS):
            return 1
        shapes = [self.raw.refs[k].shape for k in node.inputs]
        return max([1, *(math.prod(s[1:]) if len(s) > 3 else max(s[-2:]) for s in shapes if s)])

    # -- what is left ----------------------------------------------------------------------------

    def accounted(self) -> dict[Key, bool]:
        """For every value made: whether it equals a base value or only feeds values that do.

        An output of the run must equal one itself. Another value that nobody reads counts as fine, and
        so does one that says little: if a mask is wrong, it shows where it is used. Memory that nobody has
        written yet is judged by what is written to it.
        """
        fine = dict.fromkeys(self.distrusted, False)
        for node in reversed(self.raw.nodes):
            node_fine = True
            for key in node.outputs:
                if self.matched(key) or self.raw.refs[key].size == 0:
                    fine[key] = True
                elif key in self.outputs:
                    fine[key] = False
                elif key in self.weak or uninitialised(node.call):
                    fine[key] = True
                else:
                    readers = self.raw.consumers.get(key, ())
                    fine[key] = all(
                        all(fine.get(k, True) for k in self.raw.nodes[i].outputs)
                        for i in readers
                        if i > node.index
                    )
                node_fine = node_fine and fine[key]
        return fine

    def roots(self) -> list[Node]:
        """Nodes that are not accounted for although all they read is, in order."""
        fine = self.accounted()
        return [
            node
            for node in self.raw.nodes
            if any(not fine[k] for k in node.outputs) and all(fine.get(k, True) for k in node.inputs)
        ]

    def witnessed(self, node: Node) -> bool:
        """Whether a value that ``node`` made, as it is, led to a base value somewhere."""
        reached = {k for k in node.outputs if not self.matched(k)}
        for later in self.raw.nodes[node.index + 1 :]:
            if reached.isdisjoint(later.inputs):
                continue
            for key in later.outputs:
                if key in self.matches and self.matches[key] and key not in self.weak:
                    return True
                if not self.matched(key):
                    reached.add(key)
        return False
