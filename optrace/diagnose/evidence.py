"""What a verdict rests on, and whether two traces can be compared at all."""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Graph, Key, Node
from optrace.diagnose.findings import Evidence
from optrace.errors import ComparisonError
from optrace.trace.records import TensorRef, line_of


def check_comparable(forced: Correspondence) -> None:
    """Raises ``ComparisonError`` for a trace against itself and for runs on other inputs."""
    base, raw = forced.base.trace, forced.raw.trace
    if base is raw or base.meta["id"] == raw.meta["id"]:
        raise ComparisonError(
            "both sides are the same trace; trace the base model and the raw model separately"
        )
    read = [r for r in forced.raw.leaves if r.path is None and r.size > 0]
    known = [r for r in read if forced.matched(r.key)]
    theirs = [r for r in forced.base.leaves if r.path is None and r.size > 0]
    if read and theirs and not known:
        raise ComparisonError(inputs_differ(read, theirs))


def inputs_differ(raw: list[TensorRef], base: list[TensorRef]) -> str:
    """The message for two runs that were fed other numbers."""
    mine, theirs = (", ".join(f"{r.dtype}{list(r.shape)}" for r in refs[:4]) for refs in (raw, base))
    return (
        "the two runs had different inputs, so nothing can be said about the models: "
        f"none of raw's inputs ({mine}) equals one of base's ({theirs}); feed both sides the same numbers"
    )


# The ids of calls: all of them.
ALL = range(1 << 62)


def gather(forced: Correspondence, base_ids: range = ALL, raw_ids: range = ALL) -> Evidence:
    """Counts over the calls of the forced run with these ids."""
    found = Evidence(
        base_calls=sum(n.call.id in base_ids for n in forced.base.nodes),
        raw_calls=sum(n.call.id in raw_ids for n in forced.raw.nodes),
    )
    fine = forced.accounted()
    used: set[Key] = set()
    for node in forced.raw.nodes:
        for key in node.outputs:
            used |= forced.base_keys(key)
        if node.call.id not in raw_ids:
            continue
        reason = _beyond(forced, node)
        if reason is not None:
            found.beyond += 1
            found.beyond_reasons[reason] = found.beyond_reasons.get(reason, 0) + 1
        elif not node.outputs or any(forced.matched(k) for k in node.outputs):
            found.compared += 1
        elif all(fine.get(k, True) for k in node.outputs) and any(
            forced.raw.consumers.get(k) for k in node.outputs
        ):
            found.grouped += 1
        else:
            found.unmatched_raw += 1
    found.unmatched_base = _unmatched(forced.base, used, base_ids)
    return found


def _beyond(forced: Correspondence, node: Node) -> str | None:
    """Why a raw call can't be compared, ``None`` where it can."""
    if node.index in forced.unreplayable:
        return forced.unreplayable[node.index]
    source = next((forced.drawn[k] for k in node.outputs if k in forced.drawn), None)
    if source is None:
        return None
    return f"depends on what {source.api} drew ({line_of(source)}); draws are replayed between traces at level full"


def _unmatched(base: Graph, used: set[Key], ids: range) -> int:
    """Computing base calls whose result is no raw value and is not part of one that is."""
    fine: dict[Key, bool] = {}
    count = 0
    for node in reversed(base.nodes):
        for key in node.outputs:
            readers = [i for i in base.consumers.get(key, ()) if i > node.index]
            fine[key] = key in used or (
                bool(readers) and all(all(fine.get(k, True) for k in base.nodes[i].outputs) for i in readers)
            )
        if node.call.id not in ids:
            continue
        row = ops.lookup(node.call.api)
        if node.outputs and not any(fine[k] for k in node.outputs) and (row is None or row.kind == "compute"):
            count += 1
    return count
