"""Calls that agree but compute in another precision: a finding by itself, unlike the rounding that follows."""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import CONTRACTIONS, Correspondence
from optrace.align.graph import Key, Node
from optrace.diagnose.findings import Finding
from optrace.trace.records import Call, tensors_in

HALF = frozenset({"float16", "bfloat16"})


def other_precision(forced: Correspondence) -> list[Finding]:
    """One finding for the first call in half precision on one side only.

    A cast inside the model that is undone before its result is another way to write it: reported is what
    shows in a result of the run, or in every product (linear, matmul, convolution) that could be compared.
    """
    differing: list[tuple[Node, Key, Call]] = []
    products = alike = 0
    for node in forced.raw.nodes:
        for key in node.outputs:
            base = _counterpart(forced, key, node.call)
            if base is None:
                continue
            ours, theirs = forced.raw.refs[key].dtype, forced.base.refs[base[0]].dtype
            apart = ours != theirs and bool(HALF & {ours, theirs}) and "float" in ours and "float" in theirs
            if any(part in node.call.api.rpartition(".")[2] for part in CONTRACTIONS):
                products += 1
                alike += not apart
            if apart:
                differing.append((node, key, base[1]))
    if not differing:
        return []
    if not (products and not alike) and not any(key in forced.outputs for _, key, _ in differing):
        return []
    node, key, base_call = differing[0]
    return [_finding(forced, node.call, key, base_call, len(differing))]


def _counterpart(forced: Correspondence, key: Key, raw: Call) -> tuple[Key, Call] | None:
    for base in forced.base_keys(key):
        for call in forced.base.makers.get(base, ()):
            if ops.same_job(call.api, raw.api):
                return base, call
    return None


def _finding(forced: Correspondence, raw: Call, key: Key, base: Call, count: int) -> Finding:
    ours = forced.raw.refs[key].dtype
    theirs = next(r.dtype for r in tensors_in(base.outputs))
    text = f"{raw.api} computes in {ours}, base's {base.api} in {theirs} (so do {count} calls in all)"
    side, half = (raw, ours) if ours in HALF else (base, theirs)
    given = {r.dtype for r in tensors_in(side.positional) + tensors_in(side.keyword)}
    where = "raw" if side is raw else "base"
    hint = "give both sides the same dtype"
    if half not in given:
        text += f": autocast is active on the {where} side only"
        other = base if side is raw else raw
        if other.framework == "paddle":
            hint = "paddle's auto_cast at level O1 has no effect on CPU; compare without autocast, or in one dtype"
    return Finding("dtype", text, "forward", base, raw, "dtype", suggestion=hint, occurrences=count)
