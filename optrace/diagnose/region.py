"""Within a stretch of calls that went wrong together: which call is to blame."""

from __future__ import annotations

from optrace import ops
from optrace.align.graph import Node
from optrace.diagnose.arguments import argument_differences, moves
from optrace.diagnose.forced import Forced
from optrace.diagnose.repair import Hypothesis, propose
from optrace.diagnose.siblings import unusual_differences
from optrace.trace.records import Call, tensors_in


def culprit(forced: Forced, region: list[Node], hypothesis: Hypothesis) -> tuple[Node, Call | None]:
    """The raw call to name and its base counterpart.

    In a region of one call that is the call itself. In a longer one it is the first call whose
    counterpart has other arguments, or that reads a parameter base does not have; failing that, the
    first call that has no counterpart of its kind, or the one where the sides meet again.
    """
    alone = all(forced.matched(k) for k in hypothesis.node.inputs)
    if alone or len(region) == 1 or region[-1].index != hypothesis.node.index:
        return _behind_moves(forced, hypothesis.node, hypothesis.base)
    pairs = [(node, _counterpart(forced, node)) for node in region[:-1]]
    pairs.append((hypothesis.node, hypothesis.base))
    differing = [
        (node, base)
        for node, base in pairs
        if base is not None
        and ops.same_job(node.call.api, base.api)
        and unusual_differences(forced, node, base)
    ]
    # A move may well be written otherwise; what computes with other arguments is the likelier cause.
    for node, base in differing:
        if not moves(node.call):
            return node, base
    if differing:
        return differing[0]
    for node, counterpart in pairs:
        leaves = [
            r for r in tensors_in(node.call.positional) + tensors_in(node.call.keyword) if r.path is not None
        ]
        if counterpart is not None and any(not forced.matched(r.key) for r in leaves):
            return node, counterpart
    return region[0], pairs[0][1] if pairs[0][1] is not None else hypothesis.base


def _behind_moves(forced: Forced, node: Node, base: Call | None) -> tuple[Node, Call | None]:
    """The move that gave ``node`` its input in another shape than base's call reads, if that is all there is."""
    if base is None or not ops.same_job(node.call.api, base.api) or argument_differences(base, node.call):
        return node, base
    mine = tensors_in(node.call.positional) + tensors_in(node.call.keyword)
    theirs = tensors_in(base.positional) + tensors_in(base.keyword)
    for ref, wanted in zip(mine, theirs):
        index, makers = forced.raw.producer.get(ref.key), forced.base.makers.get(wanted.key)
        if ref.shape == wanted.shape or index is None or not makers:
            continue
        maker = forced.raw.nodes[index]
        if moves(maker.call):
            return maker, makers[0]
    return node, base


def _counterpart(forced: Forced, node: Node) -> Call | None:
    for h in propose(forced, node, frozenset()):
        if h.how in ("same call", "same kind"):
            return h.base
    return None
