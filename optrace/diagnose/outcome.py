"""What shows at the ends of two runs: results of another shape, calls that raised on one side only."""

from __future__ import annotations

from optrace import ops
from optrace.align.graph import Key, Node
from optrace.diagnose.findings import Cause
from optrace.diagnose.forced import Forced
from optrace.trace.records import Call, tensors_in


def reshaped_outputs(forced: Forced) -> list[tuple[Node, Key, Call, Key, Cause]]:
    """Results that hold base's values in another shape than the counterpart's result has."""
    found = []
    for node in forced.raw.nodes:
        for place, key in enumerate(node.outputs):
            matches = forced.matches.get(key) or []
            if key not in forced.outputs or not matches or any(m.strict for m in matches):
                continue
            for call in (c for m in matches for c in forced.base.makers.get(m.key, ())):
                made = tensors_in(call.outputs)
                if call.parent != -1 or not ops.same_job(call.api, node.call.api) or place >= len(made):
                    continue
                mine, theirs = list(forced.raw.refs[key].shape), list(made[place].shape)
                if mine != theirs:
                    text = f"{node.call.api} gives output {place} as {mine}, base as {theirs}; the values are equal"
                    found.append((node, key, call, made[place].key, Cause("layout", text, call)))
                break
    return found


def raised(forced: Forced) -> list[tuple[Call, Call | None, str]]:
    """Outermost raw calls that raised, with the base call that did not, and a line about it."""
    theirs = [c for c in forced.base.trace.calls if c.parent == -1]
    failed = {c.api for c in theirs if c.error is not None}
    found = []
    for call in forced.raw.trace.calls:
        if call.error is None or call.parent != -1:
            continue
        if any(ops.same_job(call.api, api) for api in failed):
            continue  # both sides refuse
        if _ends_unpacking(forced.raw.trace.calls, call):
            continue
        dtypes = " and ".join(
            dict.fromkeys(r.dtype for r in tensors_in(call.positional) + tensors_in(call.keyword))
        )
        base = next((c for c in theirs if ops.same_job(c.api, call.api) and c.error is None), None)
        text = f"{call.api} raised {call.error.splitlines()[0][:160]} (given {dtypes})"
        if base is not None:
            results = ", ".join(r.dtype for r in tensors_in(base.outputs))
            text += f"; base's {base.api} takes them and gives {results}"
        found.append((call, base, text))
    return found


def _ends_unpacking(calls: list[Call], call: Call) -> bool:
    """Whether an ``IndexError`` is how ``a, b = tensor`` ends: the subscripts before it counted up to it."""
    if not call.api.endswith("__getitem__") or not (call.error or "").startswith("IndexError"):
        return False
    index = call.positional[1] if len(call.positional) > 1 else None
    if not isinstance(index, int) or index == 0:
        return False
    earlier = (c for c in calls[: call.id] if c.api == call.api and c.site == call.site)
    return any(c.positional[:2] == [call.positional[0], index - 1] for c in earlier)
