"""Random calls as the cause: a drop that one side switches off, a sample drawn with other arguments."""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Node
from optrace.diagnose.argument_causes import argument_cause
from optrace.diagnose.arguments import argument_differences, named_tensors
from optrace.diagnose.findings import Cause
from optrace.trace.effect import effect
from optrace.trace.records import Call, tensors_in


def idle_on_raw(c: Correspondence, missing: Call) -> Cause | None:
    """Raw's call of the same job that reads what ``missing`` reads, and passes it on as it is."""
    if not effect(missing).effective:
        return None
    read = {r.key for r in tensors_in(missing.positional) + tensors_in(missing.keyword)}
    for call in c.raw.calls:
        if not ops.same_job(missing.api, call.api) or not _idle(call):
            continue
        if any(c.base_keys(r.key) & read for r in tensors_in(call.positional) + tensors_in(call.keyword)):
            return _switch(missing, call, call)
    return None


def idle_on_base(node: Node, base: Call) -> Cause | None:
    """``node`` drops where base's call of the same job, ``base``, does not."""
    raw = node.call
    if ops.same_job(raw.api, base.api) and _idle(base) and effect(raw).effective:
        return _switch(base, raw, None)
    return None


def drawn_otherwise(c: Correspondence, node: Node, base: Call) -> Cause | None:
    """A sample that ``node`` reads, drawn with other arguments than the one that base's call reads."""
    for (_, ref), (_, wanted) in zip(named_tensors(node.call), named_tensors(base)):
        index, makers = c.raw.producer.get(ref.key), c.base.makers.get(wanted.key)
        if index is None or not makers or c.stands_for(ref, wanted):
            continue
        raw, row = c.raw.nodes[index].call, ops.lookup(makers[0].api)
        differences = argument_differences(makers[0], raw)
        if row is not None and row.kind == "random" and differences:
            return argument_cause(makers[0], raw, differences)._replace(raw=raw)
    return None


def _idle(call: Call) -> bool:
    found = effect(call)
    return found.drops and not found.effective


def _switch(base: Call, raw: Call, named: Call | None) -> Cause | None:
    differences = argument_differences(base, raw)
    # What makes one of them idle comes first; p differs in vain where training is off.
    differences.sort(key=lambda d: d.name not in ("training", "is_test"))
    return argument_cause(base, raw, differences)._replace(raw=named) if differences else None
