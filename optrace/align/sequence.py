"""Pair the computing calls of two runs by kind, order and fingerprint, without running anything.

Calls whose results carry the same numbers and are unique on both sides are anchors (as in patience
diff); the longest run of anchors in the same order is kept, and the stretches between are aligned by
the kinds of their calls. Near-linear in the number of calls.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher

from optrace import ops
from optrace.align.graph import Graph, Node
from optrace.trace.records import Fingerprint

# Gaps up to this many calls on each side are aligned by kind; longer ones only by their anchors.
LONGEST_GAP = 4000


def computing(graph: Graph) -> list[Node]:
    """The nodes that compute (or draw, or create): all but mere moves of data."""
    kinds: dict[str, bool] = {}
    found = []
    for node in graph.nodes:
        api = node.call.api
        if api not in kinds:
            row = ops.lookup(api)
            kinds[api] = row is None or row.kind != "move"
        if kinds[api] and (node.outputs or node.call.mutated):
            found.append(node)
    return found


def pairs(base: Graph, raw: Graph) -> list[tuple[Node, Node]]:
    """Corresponding ``(base, raw)`` nodes, both in order."""
    b, r = computing(base), computing(raw)
    mark_b, mark_r = [_marks(base, n) for n in b], [_marks(raw, n) for n in r]
    anchors = _increasing(_unique_anchors(mark_b, mark_r))
    found: list[tuple[int, int]] = []
    kind = _Kinds()
    before = (0, 0)
    for i, j in [*anchors, (len(b), len(r))]:
        found += _gap(b[before[0] : i], r[before[1] : j], before, kind)
        if i < len(b):
            found.append((i, j))
        before = (i + 1, j + 1)
    return [(b[i], r[j]) for i, j in found]


def _marks(graph: Graph, node: Node) -> Hashable:
    """What a node's first result looks like, coarse enough to survive rounding and a change of layout."""
    for key in node.outputs:
        print_ = graph.trace.stats(graph.refs[key])
        if print_ is not None and print_.count > 2 and print_.rms > 0:
            return (
                print_.count,
                _coarse(print_.rms),
                _coarse(print_.abs_mean),
                _coarse(print_.maximum - print_.minimum),
            )
    return None


def _coarse(x: float) -> float:
    """``x`` to three significant digits."""
    if x == 0 or not math.isfinite(x):
        return x
    return round(x, 2 - math.floor(math.log10(abs(x))))


def _unique_anchors(base: Sequence[Hashable], raw: Sequence[Hashable]) -> list[tuple[int, int]]:
    counts = Counter(base), Counter(raw)
    place = {m: j for j, m in enumerate(raw)}
    return [
        (i, place[m])
        for i, m in enumerate(base)
        if m is not None and counts[0][m] == 1 and counts[1].get(m) == 1
    ]


def _increasing(anchors: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence in which both sides go forward (patience sorting, O(n log n))."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for k, (_, j) in enumerate(anchors):
        at = bisect.bisect_left(tails, j)
        back.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(j)
            ends.append(k)
        else:
            tails[at], ends[at] = j, k
    kept: list[tuple[int, int]] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        kept.append(anchors[k])
        k = back[k]
    return kept[::-1]


class _Kinds:
    """One token for all APIs that do the same job."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, node: Node) -> str:
        api = node.call.api
        if api not in self._known:
            row = ops.lookup(api)
            self._known[api] = row.name if row is not None else api
        return self._known[api]


def _gap(
    base: list[Node], raw: list[Node], start: tuple[int, int], kind: Callable[[Node], str]
) -> list[tuple[int, int]]:
    if not base or not raw or len(base) > LONGEST_GAP or len(raw) > LONGEST_GAP:
        return []
    matcher = SequenceMatcher(None, [kind(n) for n in base], [kind(n) for n in raw], autojunk=False)
    return [
        (start[0] + block.a + k, start[1] + block.b + k)
        for block in matcher.get_matching_blocks()
        for k in range(block.size)
    ]


def relative_gap(a: Fingerprint | None, b: Fingerprint | None, same_shape: bool) -> float:
    """About how far two tensors are apart, relative to the first's norm; ``nan`` when unknown.

    Of one shape: from the sketches, within some 20 %. Otherwise from figures that no layout changes.
    """
    from optrace.trace.fingerprint import distance

    if a is None or b is None:
        return math.nan
    if a.count != b.count or a.non_finite != b.non_finite:
        return math.inf
    norm = a.rms * math.sqrt(max(a.count - a.non_finite, 1))
    if norm == 0:
        return 0.0 if b.rms == 0 else math.inf
    if same_shape:
        return distance(a, b) / norm
    return max(abs(a.rms - b.rms), abs(a.abs_mean - b.abs_mean), abs(a.mean - b.mean)) / a.rms
