"""What is usual between two code bases, learnt from the pairs of calls that agree.

A port may pad inside the convolution where base pads before it: then every such pair differs in
``padding``, and that is no explanation for the one pair that disagrees.
"""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Node
from optrace.diagnose.arguments import argument_differences
from optrace.diagnose.findings import ArgumentDifference
from optrace.trace.records import Call, tensors_in


def unusual_differences(c: Correspondence, node: Node, base: Call) -> list[ArgumentDifference]:
    """Argument differences of the pair that agreeing pairs of the same APIs do not have."""
    found = argument_differences(base, node.call)
    if len(found) < 2:
        return found
    usual: set[str] = set()
    for raw_sibling, base_sibling in _agreeing(c, node.call, base):
        usual |= {d.name for d in argument_differences(base_sibling, raw_sibling)}
    return [d for d in found if d.name not in usual] or found


def usually_missing(c: Correspondence, missing: Call) -> bool:
    """Whether other runs of a base call, too, have no counterpart, although what reads them agrees."""
    taken = {b for k in c.matches for b in c.base_keys(k)}
    for node in c.base.nodes:
        call = node.call
        if call.api != missing.api or call.id == missing.id or not node.outputs:
            continue
        readers = [c.base.nodes[i] for k in node.outputs for i in c.base.consumers.get(k, ())]
        if (
            readers
            and not taken.intersection(node.outputs)
            and all(taken.intersection(r.outputs) for r in readers)
        ):
            return True
    return False


def _agreeing(c: Correspondence, raw: Call, base: Call) -> list[tuple[Call, Call]]:
    """Agreeing pairs of the same two APIs, at most a few."""
    pairs: list[tuple[Call, Call]] = []
    for node in c.raw.nodes:
        if node.call.api != raw.api or node.call.id == raw.id or len(pairs) >= 8:
            continue
        makers = (m for k in node.outputs for b in c.base_keys(k) for m in c.base.makers.get(b, ()))
        if any(k in c.repairs for k in node.outputs):
            continue
        twin = next((m for m in makers if m.api == base.api and ops.same_job(m.api, raw.api)), None)
        if twin is not None and tensors_in(twin.outputs):
            pairs.append((node.call, twin))
    return pairs
