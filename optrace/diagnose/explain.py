"""Why a raw call and its base counterpart differ, given equal inputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from optrace import ops
from optrace.align.graph import Key, Node
from optrace.align.index import same_elements, transposition
from optrace.align.values import agree, difference
from optrace.diagnose.arguments import moves, named_tensors
from optrace.diagnose.findings import ArgumentDifference, Kind
from optrace.diagnose.forced import Forced
from optrace.diagnose.replay import Unreplayable
from optrace.diagnose.siblings import unusual_differences, usually_missing
from optrace.trace.records import Call, TensorRef, tensors_in

COMMUTATIVE = ("add", "mul", "multiply", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or")


class Cause(NamedTuple):
    """One explanation; ``base`` may be another call than the counterpart (a missing one, say)."""

    kind: Kind
    message: str
    base: Call | None
    argument: str | None = None
    parameter: str | None = None
    differences: tuple[ArgumentDifference, ...] = ()
    suggestion: str = ""


def explain(forced: Forced, node: Node, raw_key: Key, base: Call, base_key: Key) -> Cause:
    """The cause of ``node`` not making base's value, most certain explanation first."""
    raw = node.call
    wanted = forced.base.trace.value(forced.base.refs[base_key])
    if _superfluous(forced, node, base, base_key):
        return Cause("extra_op", f"{raw.api} has no counterpart on the base side", None)
    by_input = _inputs(forced, node, base)
    if by_input is not None and by_input.kind in ("weight", "input"):
        return by_input
    found = _arguments(forced, node, raw_key, base, wanted)
    if found is not None and (by_input is None or found[1]):
        return _argument_cause(forced, node, raw_key, base, wanted, found[0])
    if by_input is not None:
        return by_input
    if not ops.same_job(raw.api, base.api):
        return Cause("value", f"{raw.api} stands where base calls {base.api}", base)
    row = ops.lookup(raw.api)
    known = row.differences[0] if row is not None and row.differences else ""
    note = f"{raw.api} gives other numbers than {base.api} on equal inputs and equal arguments"
    return Cause("value", note, base, suggestion=known)


def _superfluous(forced: Forced, node: Node, base: Call, base_key: Key) -> bool:
    """Whether what should come out is what goes in (unless base's call is such a one, too)."""
    if any(r.key == base_key for r in tensors_in(base.positional) + tensors_in(base.keyword)):
        return False
    return any(base_key in forced.base_keys(k) for k in node.inputs)


# -- inputs ------------------------------------------------------------------------------------------


def _inputs(forced: Forced, node: Node, base: Call) -> Cause | None:
    """The first tensor argument that is not what base's call reads."""
    raw = node.call
    mine, theirs = named_tensors(raw), named_tensors(base)
    for name, ref in mine:
        if _unknown_leaf(forced, ref) and (ref.path is not None or ref.device == "numpy" or len(mine) == len(theirs)):
            return _leaf_cause(forced, raw, name, ref, base)
    if len(mine) != len(theirs) or not ops.same_job(raw.api, base.api):
        return _missing(forced, node, base) if ops.same_job(raw.api, base.api) else None
    wrong = [
        (i, name, ref)
        for i, (name, ref) in enumerate(mine)
        if not _stands_for(forced, ref, theirs[i][1]) and not _usual(forced, theirs[i][1])
    ]
    if not wrong:
        return None
    if len(wrong) > 1:
        places = {i for i, _, _ in wrong}
        swapped = all(any(_stands_for(forced, ref, theirs[j][1]) for j in places) for _, _, ref in wrong)
        if swapped:
            if any(part in raw.api.rpartition(".")[2] for part in COMMUTATIVE):
                return None
            name = theirs[wrong[0][0]][0]
            text = f"{raw.api} takes its tensors in another order than {base.api}"
            return Cause("order", text, base, argument=name)
    i, name, ref = wrong[0]
    return _wrong_input(forced, node, base, ref, theirs[i])


def _usual(forced: Forced, base: TensorRef) -> bool:
    """Whether base's value comes from a call that the raw side does without, here and elsewhere."""
    makers = forced.base.makers.get(base.key)
    return bool(makers) and usually_missing(forced, makers[0])


def _unknown_leaf(forced: Forced, ref: TensorRef) -> bool:
    return ref.key not in forced.raw.producer and not forced.matched(ref.key)


def _stands_for(forced: Forced, raw: TensorRef, base: TensorRef) -> bool:
    if base.key in forced.base_keys(raw.key):
        return True
    a, b = forced.base.trace.value(base), forced.value(raw.key)
    if a is None or b is None:
        return True  # nothing to hold against it
    if a.shape == b.shape and agree(difference(a, b, raw.dtype), raw.dtype):
        return True
    if a.size == b.size and agree(difference(a.reshape(-1), b.reshape(-1), raw.dtype), raw.dtype):
        return True
    return transposition(a, b, raw.dtype) is not None


def _leaf_cause(forced: Forced, raw: Call, name: str, ref: TensorRef, base: Call) -> Cause:
    if ref.path is None:
        text = f"{raw.api} reads an input that base does not have (argument {name}, shape {list(ref.shape)})"
        return Cause("input", text, base, argument=name)
    theirs = next((r for n, r in named_tensors(base) if r.path is not None and (n == name or r.size == ref.size)), None)
    other = f"base's {theirs.path}" if theirs is not None else "any of base's parameters"
    return Cause(
        "weight",
        f"parameter {ref.path} differs from {other}",
        base,
        argument=name,
        parameter=ref.path,
        suggestion="carry it over with optrace.assign_weight, or check the conversion rule of this parameter",
    )


def _wrong_input(forced: Forced, node: Node, base: Call, ref: TensorRef, theirs: tuple[str, TensorRef]) -> Cause:
    raw = node.call
    name, wanted = theirs
    if ref.path is not None and wanted.path is not None:
        text = f"{raw.api} uses parameter {ref.path} where base uses {wanted.path}"
        return Cause("value", text, base, argument=name, parameter=ref.path)
    missing = _missing(forced, node, base)
    if missing is not None:
        return missing
    a, b = forced.base.trace.value(wanted), forced.value(ref.key)
    if a is not None and b is not None and same_elements(a, b):
        return Cause("layout", f"{raw.api} reads base's values in another layout (argument {name})", base, argument=name)
    source = _origin(forced, ref)
    text = f"argument {name} of {raw.api} is {source}, base passes {_base_origin(forced, wanted)}"
    return Cause("value", text, base, argument=name)


def _origin(forced: Forced, ref: TensorRef) -> str:
    if ref.path is not None:
        return f"parameter {ref.path}"
    index = forced.raw.producer.get(ref.key)
    if index is None:
        return "an input of the run"
    call = forced.raw.nodes[index].call
    return f"the result of {call.api} ({_place(call)})"


def _base_origin(forced: Forced, ref: TensorRef) -> str:
    if ref.path is not None:
        return f"parameter {ref.path}"
    makers = forced.base.makers.get(ref.key)
    return f"the result of {makers[0].api} ({_place(makers[0])})" if makers else "an input of the run"


def _place(call: Call) -> str:
    return f"{call.site.file.rpartition('/')[2]}:{call.site.line}" if call.site else "unknown line"


def _missing(forced: Forced, node: Node, base: Call) -> Cause | None:
    """Base calls between a value that ``node`` reads and what base's counterpart reads instead."""
    known = frozenset().union(*(forced.base_keys(k) for k in node.inputs)) if node.inputs else frozenset()
    taken = {b for k in forced.matches for b in forced.base_keys(k)}
    for _, wanted in named_tensors(base):
        if wanted.key in known:
            continue
        chain = _chain(forced, wanted.key, known, taken, 4)
        if chain and not usually_missing(forced, chain[0]):
            calls = ", ".join(dict.fromkeys(c.api for c in chain))
            text = f"base calls {calls} ({_place(chain[0])}) before this; the raw side does not"
            return Cause("missing_op", text, chain[0])
    return None


def _chain(forced: Forced, key: Key, known: frozenset[Key], taken: set[Key], depth: int) -> list[Call]:
    """Base calls from a known value up to ``key`` whose results the raw side never makes; oldest first."""
    makers = forced.base.makers.get(key)
    if not makers or depth == 0 or key in taken:
        return []
    call = makers[0]
    inputs = [r.key for r in tensors_in(call.positional) + tensors_in(call.keyword)]
    if known.intersection(inputs):
        return [call]
    for k in inputs:
        before = _chain(forced, k, known, taken, depth - 1)
        if before:
            return [*before, call]
    return []


# -- arguments ---------------------------------------------------------------------------------------


def proven_arguments(forced: Forced, node: Node, raw_key: Key, base: Call, base_key: Key) -> bool:
    """Whether giving the raw call base's arguments was seen to give base's result."""
    found = _arguments(forced, node, raw_key, base, forced.base.trace.value(forced.base.refs[base_key]))
    return found is not None and found[1]


def _arguments(
    forced: Forced, node: Node, raw_key: Key, base: Call, wanted: np.ndarray | None
) -> tuple[list[ArgumentDifference], bool] | None:
    """Argument differences, and whether setting them right was seen to mend the result."""
    found = unusual_differences(forced, node, base)
    if not found:
        return None
    mended = _with(forced, node, raw_key, base, [d.raw_name for d in found])
    proven = mended is not None and wanted is not None and _close(wanted, mended, node, forced)
    if proven and len(found) > 1:
        needed = []
        for d in found:
            alone = _with(forced, node, raw_key, base, [o.raw_name for o in found if o is not d])
            if alone is None or wanted is None or not _close(wanted, alone, node, forced):
                needed.append(d)
        found = needed or found
    return found, proven


def _with(forced: Forced, node: Node, raw_key: Key, base: Call, names: list[str | None]) -> np.ndarray | None:
    """The raw call's result with the named arguments as base has them."""
    right = ops.translate(base.api, base.args, node.call.api)
    if right is None:
        return None
    override = {n: right[n] for n in names if n is not None and n in right}
    if not override:
        return None
    try:
        return forced.replayer.run(node.call, forced.env, override).get(raw_key)
    except (Unreplayable, KeyError):
        return None


def _close(wanted: np.ndarray, got: np.ndarray, node: Node, forced: Forced) -> bool:
    if wanted.shape != got.shape:
        return False
    return agree(difference(wanted, got, str(got.dtype)), str(got.dtype), forced.reduction(node))


def _argument_cause(
    forced: Forced, node: Node, raw_key: Key, base: Call, wanted: Any, found: list[ArgumentDifference]
) -> Cause:
    raw = node.call
    first = found[0]
    theirs, mine = _shown(first.base_value), _shown(first.raw_value)
    label = first.name if first.base_name in (first.raw_name, None) else f"{first.base_name} (here {first.raw_name})"
    unset = "" if first.raw_name is None or first.raw_name in raw.args else " by default"
    text = f"{raw.api}: {label or first.name} is {mine}{unset}, base has {theirs}"
    right = ops.translate(base.api, base.args, raw.api) or {}
    suggestion = (
        f"pass {first.raw_name}={_shown(right[first.raw_name])}" if first.raw_name and first.raw_name in right else first.note
    )
    return Cause("layout" if moves(raw) else "argument", text, base, first.name, differences=tuple(found), suggestion=suggestion)


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return repr(value)
