"""The arguments of a pair of calls, compared through the op table."""

from __future__ import annotations

from optrace import ops
from optrace.diagnose.findings import ArgumentDifference
from optrace.trace.records import Call, TensorRef, tensors_in

# Arguments that count axes: the same number names another axis of a tensor of another rank, which is
# then a difference of the tensors, not of the arguments.
AXES = frozenset({"dim", "dims", "axis", "axes", "start_dim", "end_dim"})


def named_tensors(call: Call) -> list[tuple[str, TensorRef]]:
    """The call's tensor arguments, each with its canonical parameter name."""
    return [(name, ref) for name, value in call.args.items() for ref in tensors_in(value)]


def shapes_of(call: Call) -> dict[str, tuple[int, ...]]:
    """Shapes of the call's tensor arguments by canonical name."""
    return {name: value.shape for name, value in call.args.items() if isinstance(value, TensorRef)}


def signature(call: Call) -> tuple[object, ...]:
    """What ``argument_differences`` looks at of a call, to tell whether a pair has been compared before."""
    return (call.via or call.api, _frozen(call.positional), _frozen(call.keyword))


def _frozen(tree: object) -> object:
    """An argument tree as something to look up; a tensor is as good as another of its shape."""
    if isinstance(tree, TensorRef):
        return tree.shape
    if isinstance(tree, (list, tuple)):
        return (type(tree), *map(_frozen, tree))
    if isinstance(tree, dict):
        return tuple((name, _frozen(value)) for name, value in tree.items())
    # repr tells 1 from 1.0 and from True, and nan is itself.
    return (type(tree), repr(tree))


def argument_differences(base: Call, raw: Call) -> list[ArgumentDifference]:
    """Non-tensor arguments that do not mean the same on the two sides."""
    if not ops.same_job(base.api, raw.api):
        return []
    shapes = {"base": shapes_of(base), "raw": shapes_of(raw)}
    found = ops.compare_arguments(base.via or base.api, base.args, raw.via or raw.api, raw.args, shapes)
    mine, theirs = first_rank(raw), first_rank(base)
    return [d for d in found if not (mine != theirs and d.name in AXES and d.base_value == d.raw_value)]


def moves(call: Call) -> bool:
    """Whether the call only moves data."""
    row = ops.lookup(call.api)
    return row is not None and row.kind == "move"


def first_rank(call: Call) -> int:
    """Number of dimensions of the call's first tensor argument; -1 without any."""
    return next((len(r.shape) for _, r in named_tensors(call)), -1)
