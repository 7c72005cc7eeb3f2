"""Arguments as the cause: which of them differ, seen to matter by running the raw call with base's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Key, Node
from optrace.align.values import agree, difference
from optrace.diagnose.arguments import moves, named_tensors
from optrace.diagnose.findings import ArgumentDifference, Cause
from optrace.diagnose.siblings import unusual_differences
from optrace.ops.compare import pair
from optrace.trace.records import Call


def proven_arguments(c: Correspondence, node: Node, raw_key: Key, base: Call, base_key: Key) -> bool:
    """Whether giving the raw call base's arguments was seen to give base's result."""
    found = differing_arguments(c, node, raw_key, base, c.base.trace.value(c.base.refs[base_key]))
    return found is not None and found[1]


def differing_arguments(
    c: Correspondence, node: Node, raw_key: Key, base: Call, wanted: np.ndarray | None
) -> tuple[list[ArgumentDifference], bool] | None:
    """Argument differences, and whether setting them right was seen to mend the result."""
    found = unusual_differences(c, node, base)
    if not found:
        return None

    def mends(differences: list[ArgumentDifference]) -> bool:
        got = _with(c, node, raw_key, base, [d.raw_name for d in differences])
        if got is None or wanted is None or wanted.shape != got.shape:
            return False
        return agree(difference(wanted, got, str(got.dtype)), str(got.dtype), c.reduction(node))

    proven = mends(found)
    if proven and len(found) > 1:
        found = [d for d in found if not mends([o for o in found if o is not d])] or found
    return found, proven


def _with(
    c: Correspondence, node: Node, raw_key: Key, base: Call, names: list[str | None]
) -> np.ndarray | None:
    """The raw call's result with the named arguments as base has them."""
    right = ops.translate(base.api, base.args, node.call.api)
    if right is None:
        return None
    override = {n: right[n] for n in names if n is not None and n in right}
    return c.rerun(node, override).get(raw_key) if override else None


def argument_cause(base: Call, raw: Call, found: list[ArgumentDifference]) -> Cause:
    """The cause that the first of the differences is; the others are listed with it."""
    first = found[0]
    # Base may have left the argument at its default, which is to be said here.
    meant = {first.base_name: first.base_value} if first.base_name is not None else {}
    right = ops.translate(base.api, {**meant, **base.args}, raw.api) or {}
    suggestion = first.note
    if first.raw_name and first.raw_name in right:
        suggestion = f"pass {first.raw_name}={_shown(right[first.raw_name])}"
    kind = "layout" if moves(raw) else "argument"
    text = argument_text(base, raw, found)
    return Cause(kind, text, base, first.name, differences=tuple(found), suggestion=suggestion)  # type: ignore[arg-type]


def argument_text(base: Call, raw: Call, found: list[ArgumentDifference]) -> str:
    """The line that names the first differing argument with both values."""
    first = found[0]
    theirs, mine = _shown(first.base_value), _shown(first.raw_value)
    label = (
        first.name
        if first.base_name in (first.raw_name, None)
        else f"{first.base_name} (here {first.raw_name})"
    )
    unset = "" if first.raw_name is None or first.raw_name in raw.args else " by default"
    same = ", which means something else there" if mine == theirs else ""
    return f"{raw.api}: {label} is {mine}{unset}, base has {theirs}{same}"


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return repr(value)


def one_sided(base: Call, raw: Call) -> Cause | None:
    """The tensor argument that only one of two calls of one job is given (a weight, a bias, a mask)."""
    sides = pair(base.api, base.args, raw.api, raw.args)
    if sides is None:
        return None
    given = [
        {side.common(name): name for name, _ in named_tensors(call)} for side, call in zip(sides, (base, raw))
    ]
    for common, name in given[0].items():
        if common not in given[1]:
            text = f"{raw.api}: {name} is not given, base passes a tensor"
            return Cause("argument", text, base, name, suggestion=f"pass {sides[1].own(common)}")
    for common, name in given[1].items():
        if common not in given[0]:
            return Cause("argument", f"{raw.api}: {name} is given, base passes none", base, name)
    return None
