"""From a gradient that went wrong to the call to name."""

from __future__ import annotations

import numpy as np

from optrace import ops
from optrace.align.graph import made_by
from optrace.align.values import difference
from optrace.diagnose.arguments import argument_differences
from optrace.diagnose.findings import Error, ErrorFigures, Finding, Kind
from optrace.trace.records import Call, tensors_in
from optrace.training.backward import Backward, Mismatch
from optrace.training.closeness import apart, norm, ratio
from optrace.training.flow import Flow

_SAME = 2e-3
# Rows of the op table that multiply.
_SCALES = frozenset({"mul", "multiply", "div", "divide", "true_divide", "scale"})


def blame(backward: Backward, mismatch: Mismatch, parameter: str | None, step: int) -> Finding:
    """The finding for one place where the backward passes part."""
    raw, base, kind, text, argument = _culprit(backward, mismatch)
    where = f"; the first gradient to differ is that of {parameter}" if parameter else ""
    return Finding(
        kind=kind,
        message=f"backward: {text}{_shape_of_trouble(mismatch)}{where}",
        stage="backward",
        base=base,
        raw=raw,
        argument=argument,
        parameter=parameter,
        error=Error(_figures(mismatch), None),
        suggestion=_known(raw),
        step=step,
    )


def _culprit(
    backward: Backward, mismatch: Mismatch
) -> tuple[Call | None, Call | None, Kind, str, str | None]:
    mine, theirs = backward.raw.hooks.get(mismatch.key, []), backward.base.hooks.get(mismatch.base, [])
    if mine or theirs:
        arrived = backward._laid_out(backward.base.arriving.get(mismatch.base), mismatch.base, mismatch.key)
        if apart(arrived, mismatch.arrived) <= _SAME:
            return _hook(backward, mismatch, mine, theirs)
    left, right = _unpaired(mismatch.parts, backward.base_parts(mismatch))
    pair = next(((r, b) for r, _ in left for b, _ in right if ops.same_job(r.api, b.api)), None)
    if pair is not None and argument_differences(pair[1], pair[0]):
        first = argument_differences(pair[1], pair[0])[0]
        text = f"{pair[0].api}: {first.name} is {first.raw_value!r}, base has {first.base_value!r}"
        return pair[0], pair[1], "argument", text, first.name
    if left:
        raw, given = (pair and next(p for p in left if p[0] is pair[0])) or left[0]
        base = pair[1] if pair is not None else right[0][0] if right else None
        if norm(given) == 0:
            return raw, base, "value", f"no gradient comes back through {raw.api}", None
        if raw.api.endswith("backward"):
            return (
                raw,
                base,
                "value",
                f"the pass starts from another gradient in {raw.api} than in base",
                None,
            )
        other = f" than base's {base.api}" if base is not None else ", which base does not have here"
        return raw, base, "value", f"{raw.api} passes back another gradient{other}", None
    if right:
        other_call = right[0][0]
        standing = _standing_for(backward, other_call)
        ref = backward.forced.raw.refs[mismatch.key]
        if ref.path is not None and not ref.requires_grad:
            return (
                standing,
                other_call,
                "value",
                f"parameter {ref.path} is frozen: it takes no gradient, base's does",
                None,
            )
        name = standing.api if standing is not None else "nothing"
        text = f"base's {other_call.api} passes a gradient back to this value, but raw's {name} reads another one in its place"
        return standing, other_call, "missing_op", text, None
    unit = backward.raw.makers.get(mismatch.key)
    return (
        unit.call if unit is not None else None,
        None,
        "value",
        "the gradients that reach this value differ",
        None,
    )


def rescaled(finding: Finding, backward: Backward) -> None:
    """A loss that is only multiplied on its way into the pass (accumulation, loss scaling) is the pass's matter."""
    if finding.stage != "loss":
        return
    mine, theirs = backward.raw, backward.base
    if finding.raw is not None and finding.raw.phase != "loss" and _rescales(finding.raw, mine):
        finding.stage = "backward"
    elif finding.kind == "missing_op" and finding.base is not None and _rescales(finding.base, theirs):
        started = next((c for seeds in mine.seeds.values() for c, _ in seeds), None)
        if finding.base.phase != "loss" and started is not None:
            finding.stage, finding.raw = "backward", started
            finding.message = f"backward: base calls {finding.base.api} on its loss before the pass; {started.api} starts from the loss as it is"


def _rescales(call: Call, flow: Flow) -> bool:
    """Whether the call makes a multiple of one number, and the backward pass starts from it."""
    row = ops.lookup(call.api)
    inputs, made = tensors_in(call.positional) + tensors_in(call.keyword), made_by(call)
    scales = row is not None and row.name in _SCALES
    return scales and all(r.size == 1 for r in (*inputs, *made)) and any(r.key in flow.seeds for r in made)


def _hook(
    backward: Backward, mismatch: Mismatch, mine: list[Call], theirs: list[Call]
) -> tuple[Call | None, Call | None, Kind, str, str | None]:
    base = theirs[0] if theirs else None
    if mine:
        other = "base's hook does otherwise" if theirs else "base has no hook there"
        text = f"the hook that {mine[0].api} puts on this value changes the gradient; {other}"
        return mine[0], base, "value" if theirs else "extra_op", text, None
    unit = backward.raw.makers.get(mismatch.key)
    text = "base's hook on this value changes the gradient; the raw side has none"
    return unit.call if unit is not None else None, base, "missing_op", text, None


def _unpaired(
    mine: list[tuple[Call, np.ndarray | None]], theirs: list[tuple[Call, np.ndarray | None]]
) -> tuple[list[tuple[Call, np.ndarray | None]], list[tuple[Call, np.ndarray | None]]]:
    """Parts of the two sums that have no equal on the other side; zeros only where nothing else is left."""
    right, left = list(theirs), []
    for call, part in mine:
        equal = next((t for t in right if norm(part) and apart(t[1], part) <= _SAME), None)
        if equal is not None:
            right.remove(equal)
        else:
            left.append((call, part))
    right = [t for t in right if norm(t[1])]
    nonzero = [p for p in left if norm(p[1])]
    return nonzero or left, right


def _standing_for(backward: Backward, base: Call) -> Call | None:
    """The raw call that makes what a base call makes."""
    made = {r.key for r in made_by(base)}
    for unit in backward.raw.units:
        if any(made & backward.forced.base_keys(r.key) for r in unit.outputs):
            return unit.call
    return None


def _shape_of_trouble(mismatch: Mismatch) -> str:
    """What can be said of the two gradients in a few words."""
    mine, theirs = mismatch.left, mismatch.wanted
    if mine is not None and not np.isfinite(mine).all() and (theirs is None or np.isfinite(theirs).all()):
        return f" (raw's is not finite: {int((~np.isfinite(mine)).sum())} of {mine.size} elements, base's is)"
    if theirs is not None and not np.isfinite(theirs).all():
        return " (base's is not finite)"
    if norm(mine) == 0:
        return " (raw's gradient is zero)"
    if norm(theirs) == 0:
        return " (base's gradient is zero)"
    factor = ratio(theirs, mine)
    if factor is not None:
        return f" (raw's gradient is {factor:.4g} times base's)"
    if mine is not None and theirs is not None and mine.shape == theirs.shape:
        off = ~np.isclose(mine, theirs, rtol=1e-3, atol=1e-6 * max(float(np.abs(theirs).max()), 1e-30))
        if off.mean() < 0.9:
            return f" (at {int(off.sum())} of {off.size} elements, as with ties, edges or a masked part)"
    return ""


def _known(raw: Call | None) -> str:
    row = ops.lookup(raw.api) if raw is not None else None
    return row.differences[0] if row is not None and row.differences else ""


def _figures(mismatch: Mismatch) -> ErrorFigures | None:
    if mismatch.wanted is None or mismatch.left is None:
        return None
    return ErrorFigures(*difference(mismatch.wanted, mismatch.left, "float32")[:5])
