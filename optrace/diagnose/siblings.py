"""What is usual between two code bases, learnt from the pairs of calls that agree.

A port may pad inside the convolution where base pads before it: then every such pair differs in
``padding``, and that is no explanation for the one pair that disagrees.
"""

from __future__ import annotations

from optrace import ops
from optrace.align.graph import Node
from optrace.diagnose.arguments import argument_differences
from optrace.diagnose.findings import ArgumentDifference
from optrace.diagnose.forced import Forced
from optrace.trace.records import Call, tensors_in


def unusual_differences(forced: Forced, node: Node, base: Call) -> list[ArgumentDifference]:
    """Argument differences of the pair that agreeing pairs of the same APIs do not have."""
    found = argument_differences(base, node.call)
    if len(found) < 2:
        return found
    usual: set[str] = set()
    for raw_sibling, base_sibling in _agreeing(forced, node.call, base):
        usual |= {d.name for d in argument_differences(base_sibling, raw_sibling)}
    return [d for d in found if d.name not in usual] or found


def usually_missing(forced: Forced, missing: Call) -> bool:
    """Whether other runs of a base call, too, have no counterpart, although what reads them agrees."""
    taken = {b for k in forced.matches for b in forced.base_keys(k)}
    for node in forced.base.nodes:
        call = node.call
        if call.api != missing.api or call.id == missing.id or not node.outputs:
            continue
        readers = [forced.base.nodes[i] for k in node.outputs for i in forced.base.consumers.get(k, ())]
        if readers and not taken.intersection(node.outputs) and all(taken.intersection(r.outputs) for r in readers):
            return True
    return False


def _agreeing(forced: Forced, raw: Call, base: Call) -> list[tuple[Call, Call]]:
    """Agreeing pairs of the same two APIs, at most a few."""
    pairs: list[tuple[Call, Call]] = []
    for node in forced.raw.nodes:
        if node.call.api != raw.api or node.call.id == raw.id or len(pairs) >= 8:
            continue
        makers = (c for k in node.outputs for b in forced.base_keys(k) for c in forced.base.makers.get(b, ()))
        if any(k in forced.repairs for k in node.outputs):
            continue
        twin = next((c for c in makers if c.api == base.api and ops.same_job(c.api, raw.api)), None)
        if twin is not None and tensors_in(twin.outputs):
            pairs.append((node.call, twin))
    return pairs
