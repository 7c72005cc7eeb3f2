"""The two runs' results against each other: lost at the end, exchanged, or other values returned."""

from __future__ import annotations

from optrace.align.correspondence import Correspondence
from optrace.align.graph import Graph
from optrace.diagnose.findings import Finding
from optrace.trace.records import Call, TensorRef, line_of, tensors_in


def differing_results(c: Correspondence) -> list[Finding]:
    """Findings about what the runs return, where every call may well be right.

    Known results (a model's own) are compared one by one; of scripts, whose results are what nobody
    reads, it is asked only that the two have one in common.
    """
    base, raw = c.base.trace.outputs, c.raw.trace.outputs
    if base is None or raw is None:
        return _no_common_end(c)
    mine, theirs = tensors_in(raw), tensors_in(base)
    if not theirs:
        return []
    if not mine:
        return [
            Finding(
                "missing_op",
                f"the raw side returns no tensor, base returns {len(theirs)}",
                base=_maker(c.base, theirs[0]),
            )
        ]
    if len(mine) != len(theirs):
        # Models return more or less besides; one result at least must be both sides'.
        common = any(_same(c, r, b) for r in mine for b in theirs)
        return [] if common else [_lost(c, mine[0], theirs[0], 0)]
    wrong = [(i, r, b) for i, (r, b) in enumerate(zip(mine, theirs)) if not _same(c, r, b)]
    found = [_lost(c, r, b, i, [t for t in theirs if _same(c, r, t)]) for i, r, b in wrong]
    return found[:1] if all(f.kind == "order" for f in found) else found


def _same(c: Correspondence, raw: TensorRef, base: TensorRef) -> bool:
    return raw.shape == base.shape and (raw.size == 0 or raw.key in c.drawn or c.stands_for(raw, base))


def _lost(
    c: Correspondence, raw: TensorRef, base: TensorRef, place: int, others: list[TensorRef] | None = None
) -> Finding:
    """Why result ``place`` is another one."""
    wanted, got = _maker(c.base, base), _maker(c.raw, raw)
    made = {b for k in c.matches for b in c.base_keys(k)}
    what = f"result {place}"
    if others:
        text = f"{what} of the raw side is base's result at another place; the results are exchanged"
        return Finding("order", text, base=wanted, raw=got)
    if base.key not in made and wanted is not None and raw.key in c.raw.refs and c.matched(raw.key):
        text = f"base goes on with {wanted.api} ({line_of(wanted)}) to {what}; the raw side stops before"
        return Finding("missing_op", text, base=wanted, raw=got)
    shapes = f" ({list(raw.shape)} against {list(base.shape)})" if raw.shape != base.shape else ""
    source, target = _described(got), _described(wanted)
    return Finding(
        "value", f"{what} of the raw side is {source}, of base {target}{shapes}", base=wanted, raw=got
    )


def _no_common_end(c: Correspondence) -> list[Finding]:
    theirs = set(c.base.sinks())
    if not theirs or any(theirs & c.base_keys(k) or k in c.drawn for k in c.outputs):
        return []
    last = c.base.nodes[c.base.producer[max(theirs, key=lambda k: c.base.producer[k])]].call
    text = f"base goes on with {last.api} ({line_of(last)}); nothing the raw side ends with is one of base's results"
    return [Finding("missing_op", text, base=last, raw=c.raw.nodes[-1].call)]


def _maker(graph: Graph, ref: TensorRef) -> Call | None:
    index = graph.producer.get(ref.key)
    return None if index is None else graph.nodes[index].call


def _described(call: Call | None) -> str:
    return "an input" if call is None else f"that of {call.api} ({line_of(call)})"


def ended_early(c: Correspondence) -> list[Finding]:
    """A run that an exception ended, when the other came to its end."""
    found = []
    for side, graph, other in (("raw", c.raw, c.base), ("base", c.base, c.raw)):
        error = graph.trace.meta.get("ended")
        if error and not other.trace.meta.get("ended"):
            last = graph.nodes[-1].call
            place = graph.trace.meta.get("ended_at")
            where = f" at {place}" if place else ""
            text = f"the {side} run ended with {error}{where}; what came after {last.api} was not compared"
            raw, base = (last, None) if side == "raw" else (None, last)
            found.append(Finding("value", text, base=base, raw=raw))
    return found
