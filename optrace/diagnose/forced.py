"""The forced run: the raw side's calls again, each fed with base's values wherever they correspond.

Because every input that has a counterpart is replaced by base's own value, errors do not travel:
what a call gets wrong here, it gets wrong by itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from optrace.align.graph import Graph, Key, Node
from optrace.align.index import Match, ValueIndex, is_weak
from optrace.diagnose.arguments import moves
from optrace.diagnose.replay import Replayer, Unreplayable
from optrace.ops import same_job


# Parts of the names of calls that sum many products.
CONTRACTIONS = ("mm", "matmul", "linear", "conv", "einsum", "attention", "rnn", "lstm", "gru", "dot", "bilinear", "fft")


class Repair(NamedTuple):
    """From this raw value on, base's value is used although the two differ."""

    base: Key
    value: np.ndarray


class Forced:
    """State of a forced run; ``run`` brings it up to date from a node on."""

    def __init__(self, base: Graph, raw: Graph, index: ValueIndex, outputs: frozenset[Key]) -> None:
        self.base = base
        self.outputs = outputs
        self.raw = raw
        self.index = index
        self.replayer = Replayer(raw.trace)
        self.env: dict[Key, np.ndarray] = {}
        self.matches: dict[Key, list[Match]] = {}
        self.repairs: dict[Key, Repair] = {}
        self.own: dict[Key, np.ndarray] = {}
        self.unreplayable: dict[int, str] = {}
        # Values that say little by themselves: masks, constants, counters.
        self.weak: set[Key] = set()
        for ref in raw.leaves:
            self._leaf(ref.key)

    # -- what corresponds ------------------------------------------------------------------------

    def base_keys(self, key: Key) -> frozenset[Key]:
        """Base values that a raw value stands for: equal ones, or the one it was repaired to."""
        repair = self.repairs.get(key)
        if repair is not None:
            return frozenset({repair.base})
        return frozenset(m.key for m in self.matches.get(key, ()))

    def matched(self, key: Key) -> bool:
        return key in self.repairs or bool(self.matches.get(key))

    def value(self, key: Key) -> np.ndarray | None:
        """What consumers of a raw value are fed with."""
        found = self.env.get(key)
        return found if found is not None else self.raw.trace.value(self.raw.refs[key])

    # -- running ---------------------------------------------------------------------------------

    def run(self, start: int = 0) -> None:
        for node in self.raw.nodes[start:]:
            self.step(node)

    def step(self, node: Node) -> None:
        """Run one node on the current environment and match what comes out."""
        try:
            made = self.evaluate(node)
            self.unreplayable.pop(node.index, None)
        except Unreplayable as error:
            self.unreplayable[node.index] = str(error)
            made = {}
        for key in node.outputs:
            self._made(node, key, made.get(key))

    def evaluate(self, node: Node) -> dict[Key, np.ndarray]:
        """What ``node`` makes of the current environment; recorded outputs where nothing changed."""
        if self._untouched(node):
            known = {k: self.raw.trace.value(self.raw.refs[k]) for k in node.outputs}
            if all(v is not None for v in known.values()):
                return {k: v for k, v in known.items() if v is not None}
        return self.replayer.run(node.call, self.env)

    def _untouched(self, node: Node) -> bool:
        """Whether the node's inputs are the very values of the recorded run."""
        for key in node.inputs:
            forced = self.env.get(key)
            if forced is None:
                continue
            recorded = self.raw.trace.value(self.raw.refs[key])
            if recorded is None or forced.dtype != recorded.dtype or not np.array_equal(forced, recorded, equal_nan=forced.dtype.kind in "fc"):
                return False
        return True

    def _leaf(self, key: Key) -> None:
        value = self.raw.trace.value(self.raw.refs[key])
        if value is not None:
            # A parameter may be kept transposed on the other side.
            self.matches[key] = self.index.find(value, self.raw.refs[key].dtype, 1, moved=value.ndim == 2)

    def _made(self, node: Node, key: Key, value: np.ndarray | None) -> None:
        ref = self.raw.refs[key]
        if value is None:
            value = self.raw.trace.value(ref)
            if value is None:
                return
        self.own[key] = value
        repair = self.repairs.get(key)
        if repair is not None:
            self.env[key] = repair.value
            self.matches.pop(key, None)
            return
        found = self.index.find(value, ref.dtype, self.reduction(node), moved=not moves(node.call))
        if any(m.layout.axes for m in found) and not self._transposed(node):
            # Of equal axis lengths a transposed result may as well be a wrong one (a softmax over the other axis).
            found = [m for m in found if m.layout.axes is None or self.base.refs[m.key].shape != ref.shape]
        if is_weak(value):
            self.weak.add(key)
            if key not in self.outputs:
                found = [m for m in found if self._plausible(node, m)]
        self.matches[key] = found
        if found:
            best = found[0]
            base = self.base.trace.value(self.base.refs[best.key])
            assert base is not None
            forced = best.layout.apply(base)
            self.env[key] = forced if forced.dtype == value.dtype else forced.astype(value.dtype)
        else:
            self.env[key] = value

    def _transposed(self, node: Node) -> bool:
        """Whether what ``node`` reads already has another layout than base's."""
        return any(m.layout.axes is not None for k in node.inputs for m in self.matches.get(k, ())[:1])

    def _plausible(self, node: Node, match: Match) -> bool:
        """Whether a value that says little comes from the same kind of call as its match."""
        return any(same_job(node.call.api, c.api) for c in self.base.makers.get(match.key, ())) or (
            match.key not in self.base.makers
        )

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
        so does one that says little: if a mask is wrong, it shows where it is used.
        """
        fine: dict[Key, bool] = {}
        for node in reversed(self.raw.nodes):
            node_fine = True
            for key in node.outputs:
                if self.matched(key):
                    fine[key] = True
                elif key in self.outputs:
                    fine[key] = False
                elif key in self.weak:
                    fine[key] = True
                else:
                    readers = self.raw.consumers.get(key, ())
                    fine[key] = all(
                        all(fine.get(k, True) for k in self.raw.nodes[i].outputs) for i in readers if i > node.index
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
