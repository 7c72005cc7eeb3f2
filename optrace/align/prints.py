"""Correspondence from what two runs recorded: fingerprints (or values), nothing run again."""

from __future__ import annotations

import math
from collections.abc import Iterator

from optrace.align.candidates import Candidates
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Graph, Key
from optrace.align.index import Layout, Match
from optrace.align.sequence import relative_gap
from optrace.align.values import difference
from optrace.trace.records import Fingerprint, TensorRef

# A relative error below this is the rounding of a whole run.
ROUNDING = 2e-5
# Rounding may grow along a run, by at most this much from one call to the next, and to no more than that.
GROWTH, MOST = 10.0, 5e-4


class Prints(Correspondence):
    """Matches raw values to base values by fingerprint, allowing for rounding that has grown on the way."""

    def __init__(
        self,
        base: Graph,
        raw: Graph,
        outputs: frozenset[Key],
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        super().__init__(base, raw, outputs)
        self._rtol, self._atol = rtol, atol
        self.gaps: dict[Key, float] = {}
        self.unknown: set[Key] = set()
        self._candidates = Candidates(_summaries(base))
        self._place = -1  # in base: where the last value was found
        self._valued = bool(base.trace.value_keys()) and bool(raw.trace.value_keys())
        for leaf in raw.leaves:
            self._match(leaf.key, ROUNDING)
        for node in raw.nodes:
            worst = max((self.gaps.get(k, 0.0) for k in node.inputs), default=0.0)
            for key in node.outputs:
                self._match(key, min(MOST, max(ROUNDING, GROWTH * worst)))

    def stands_for(self, raw: TensorRef, base: TensorRef) -> bool:
        if base.key in self.base_keys(raw.key):
            return True
        gap = self.gap(base, raw)
        return math.isnan(gap) or gap <= self._limit(ROUNDING, self.raw.trace.stats(raw))

    def gap(self, base: TensorRef, raw: TensorRef) -> float:
        """How far two values are apart, relative to their size; ``nan`` when unknown, ``inf`` for other sizes."""
        return self._gap(base, self.base.trace.stats(base), raw, self.raw.trace.stats(raw))

    def _gap(
        self, base: TensorRef, base_print: Fingerprint | None, raw: TensorRef, raw_print: Fingerprint | None
    ) -> float:
        if base.size != raw.size:
            return math.inf
        if self._valued and base.shape == raw.shape:
            a, b = self.base.trace.value(base), self.raw.trace.value(raw)
            if a is not None and b is not None:
                return difference(a, b, raw.dtype).scaled
        return relative_gap(base_print, raw_print, base.shape == raw.shape)

    def _limit(self, rounding: float, mine: Fingerprint | None) -> float:
        """The gap that is allowed: what rounding explains, or the tolerances that were given instead."""
        if self._rtol is None and self._atol is None:
            return rounding
        absolute = self._atol / mine.rms if self._atol and mine is not None and mine.rms else 0.0
        return max(self._rtol or 0.0, absolute)

    def _match(self, key: Key, limit: float) -> None:
        ref = self.raw.refs[key]
        mine = self.raw.trace.stats(ref)
        if mine is None or not mine.count:
            self.unknown.add(key)
            return
        if _says_little(mine):
            self.weak.add(key)
        limit = self._limit(limit, mine)
        found: list[tuple[float, Match]] = []
        for base_print, base_key in self._candidates.near(mine, limit, self._place + 1):
            theirs = self.base.refs[base_key]
            gap = self._gap(theirs, base_print, ref, mine)
            if gap <= limit:
                found.append((gap, Match(base_key, Layout(None, ref.shape), theirs.shape == ref.shape)))
        if len(found) > 1:
            found.sort(key=lambda f: (not f[1].strict, f[0]))
        self.matches[key] = [m for _, m in found]
        if found:
            self.gaps[key] = found[0][0]
            if len(found) == 1:
                self._place = self.base.producer.get(found[0][1].key, self._place)


def _summaries(graph: Graph) -> Iterator[tuple[Fingerprint, Key, int]]:
    """Fingerprint, key and place of every value of a graph."""
    for key, ref in graph.refs.items():
        found = graph.trace.stats(ref)
        if found is not None and found.count:
            yield found, key, graph.producer.get(key, -1)


def _says_little(found: Fingerprint) -> bool:
    """Whether a value is a constant, a mask of ones and zeros, or a mask filled with huge numbers."""
    if found.minimum == found.maximum:
        return True
    zero_one = (found.minimum, found.maximum) == (0.0, 1.0) and math.isclose(
        found.rms**2, found.mean, rel_tol=1e-6
    )
    return zero_one or (found.maximum == 0.0 and found.minimum <= -1e3)
