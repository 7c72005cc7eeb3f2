"""Why a raw call and its base counterpart differ, given equal inputs."""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.align.graph import Key, Node
from optrace.align.index import same_elements
from optrace.diagnose.argument_causes import argument_cause, differing_arguments, one_sided
from optrace.diagnose.arguments import named_tensors
from optrace.diagnose.draw_causes import drawn_otherwise, idle_on_base, idle_on_raw
from optrace.diagnose.findings import Cause
from optrace.diagnose.siblings import usually_missing
from optrace.trace.records import Call, TensorRef, line_of, tensors_in

COMMUTATIVE = ("add", "mul", "multiply", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or")


def explain(c: Correspondence, node: Node, raw_key: Key, base: Call, base_key: Key) -> Cause:
    """The cause of ``node`` not making base's value, most certain explanation first."""
    raw = node.call
    wanted = c.base.trace.value(c.base.refs[base_key])
    idle = idle_on_base(node, base)
    if idle is not None:
        return idle
    if _superfluous(c, node, base, base_key):
        return Cause("extra_op", f"{raw.api} has no counterpart on the base side", None)
    by_input = drawn_otherwise(c, node, base) or _inputs(c, node, base)
    if by_input is not None and by_input.kind in ("weight", "input"):
        return by_input
    found = differing_arguments(c, node, raw_key, base, wanted)
    if found is not None and (by_input is None or found[1]):
        return argument_cause(base, raw, found[0])
    if by_input is not None:
        return by_input
    if not ops.same_job(raw.api, base.api):
        names = ops.equivalents(base.api) if base.framework != raw.framework else ()
        hint = f"the counterpart of {base.api} is {names[0]}" if names else ""
        return Cause("value", f"{raw.api} stands where base calls {base.api}", base, suggestion=hint)
    row = ops.lookup(raw.api)
    dtypes = {r.dtype for _, r in (*named_tensors(raw), *named_tensors(base))}
    sentences = row.differences if row is not None else ()
    # What holds for mixed or integer operands explains nothing about floats of one dtype.
    fitting = [
        s for s in sentences if len(dtypes) > 1 or "float" not in next(iter(dtypes), "") or "int" not in s
    ]
    known = f"known: {fitting[0]}" if fitting else ""
    note = f"{raw.api} gives other numbers than {base.api} on equal inputs and equal arguments"
    return Cause("value", note, base, suggestion=known)


def _superfluous(c: Correspondence, node: Node, base: Call, base_key: Key) -> bool:
    """Whether what should come out is what goes in (unless base's call is such a one, too)."""
    if any(r.key == base_key for r in tensors_in(base.positional) + tensors_in(base.keyword)):
        return False
    return any(base_key in c.base_keys(k) for k in node.inputs)


# -- inputs ------------------------------------------------------------------------------------------


def _inputs(c: Correspondence, node: Node, base: Call) -> Cause | None:
    """The first tensor argument that is not what base's call reads."""
    raw = node.call
    mine, theirs = named_tensors(raw), named_tensors(base)
    for name, ref in mine:
        if _unknown_leaf(c, ref) and (
            ref.path is not None or ref.device == "numpy" or len(mine) == len(theirs)
        ):
            return _leaf_cause(c, raw, name, ref, base)
    if not ops.same_job(raw.api, base.api):
        return None
    if len(mine) != len(theirs):
        return _missing(c, node, base) or one_sided(base, raw)
    wrong = [
        (i, name, ref)
        for i, (name, ref) in enumerate(mine)
        if not c.stands_for(ref, theirs[i][1]) and not _usual(c, theirs[i][1])
    ]
    if not wrong:
        return None
    if len(wrong) > 1:
        places = {i for i, _, _ in wrong}
        swapped = all(any(c.stands_for(ref, theirs[j][1]) for j in places) for _, _, ref in wrong)
        if swapped:
            if any(part in raw.api.rpartition(".")[2] for part in COMMUTATIVE):
                return None
            name = theirs[wrong[0][0]][0]
            text = f"{raw.api} takes its tensors in another order than {base.api}"
            return Cause("order", text, base, argument=name)
    i, name, ref = wrong[0]
    return _wrong_input(c, node, base, ref, theirs[i])


def _usual(c: Correspondence, base: TensorRef) -> bool:
    """Whether base's value comes from a call that the raw side does without, here and elsewhere."""
    makers = c.base.makers.get(base.key)
    return makers is not None and usually_missing(c, makers[0])


def _unknown_leaf(c: Correspondence, ref: TensorRef) -> bool:
    return ref.key not in c.raw.producer and not c.matched(ref.key)


def _leaf_cause(c: Correspondence, raw: Call, name: str, ref: TensorRef, base: Call) -> Cause:
    if ref.path is None:
        text = f"{raw.api} reads an input that base does not have (argument {name}, shape {list(ref.shape)})"
        return Cause("input", text, base, argument=name)
    theirs = next(
        (r for n, r in named_tensors(base) if r.path is not None and (n == name or r.size == ref.size)), None
    )
    other = f"base's {theirs.path}" if theirs is not None else "any of base's parameters"
    return Cause(
        "weight",
        f"parameter {ref.path} differs from {other}",
        base,
        argument=name,
        parameter=ref.path,
        suggestion="carry it over with optrace.assign_weight, or check the conversion rule of this parameter",
    )


def _wrong_input(
    c: Correspondence, node: Node, base: Call, ref: TensorRef, theirs: tuple[str, TensorRef]
) -> Cause:
    raw = node.call
    name, wanted = theirs
    if ref.path is not None and wanted.path is not None:
        readers = set(c.raw.consumers.get(ref.key, ()))
        last = ref.path.rpartition(".")[2] == wanted.path.rpartition(".")[2]
        if ref.key in c.weak or (last and readers == {node.index}):
            return _leaf_cause(c, raw, name, ref, base)
        text = f"{raw.api} uses parameter {ref.path} where base uses {wanted.path}"
        return Cause("value", text, base, argument=name, parameter=ref.path)
    missing = _missing(c, node, base)
    if missing is not None:
        return missing
    a, b = c.base.trace.value(wanted), c.value(ref.key)
    if a is not None and b is not None and same_elements(a, b):
        return Cause(
            "layout",
            f"{raw.api} reads base's values in another layout (argument {name})",
            base,
            argument=name,
        )
    source = _origin(c, ref)
    text = f"argument {name} of {raw.api} is {source}, base passes {_base_origin(c, wanted)}"
    return Cause("value", text, base, argument=name)


def _origin(c: Correspondence, ref: TensorRef) -> str:
    if ref.path is not None:
        return f"parameter {ref.path}"
    index = c.raw.producer.get(ref.key)
    if index is None:
        return "an input of the run"
    call = c.raw.nodes[index].call
    return f"the result of {call.api} ({line_of(call)})"


def _base_origin(c: Correspondence, ref: TensorRef) -> str:
    if ref.path is not None:
        return f"parameter {ref.path}"
    makers = c.base.makers.get(ref.key)
    return f"the result of {makers[0].api} ({line_of(makers[0])})" if makers else "an input of the run"


def _missing(c: Correspondence, node: Node, base: Call) -> Cause | None:
    """Base calls between a value that ``node`` reads and what base's counterpart reads instead."""
    known = frozenset().union(*(c.base_keys(k) for k in node.inputs)) if node.inputs else frozenset()
    taken = {b for k in c.matches for b in c.base_keys(k)}
    for _, wanted in named_tensors(base):
        if wanted.key in known:
            continue
        chain = _chain(c, wanted.key, known, taken, 4)
        if chain and not usually_missing(c, chain[0]):
            idle = idle_on_raw(c, chain[0])
            if idle is not None:
                return idle
            calls = ", ".join(dict.fromkeys(c.api for c in chain))
            text = f"base calls {calls} ({line_of(chain[0])}) before this; the raw side does not"
            return Cause("missing_op", text, chain[0])
    return None


def _chain(c: Correspondence, key: Key, known: frozenset[Key], taken: set[Key], depth: int) -> list[Call]:
    """Base calls from a known value up to ``key`` whose results the raw side never makes; oldest first."""
    makers = c.base.makers.get(key)
    if not makers or depth == 0 or key in taken:
        return []
    call = makers[0]
    inputs = [r.key for r in tensors_in(call.positional) + tensors_in(call.keyword)]
    if known.intersection(inputs):
        return [call]
    for k in inputs:
        before = _chain(c, k, known, taken, depth - 1)
        if before:
            return [*before, call]
    return []
