"""Calls whose effect is the shape of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import UNKNOWN, plain
from optrace.ops.meanings.base import Meaning, first_given, front
from optrace.ops.reading import Side, Term

Shape = tuple[int, ...]


class Reshape(Meaning):
    """``view``, ``reshape``, ``flatten``, ``squeeze`` and the like: read as the result's shape."""

    takes: ClassVar[frozenset[str]] = frozenset(
        "shape size sizes start_dim end_dim start_axis stop_axis dim axis dtype shape_or_dtype".split()
    )
    terms: ClassVar[frozenset[str]] = frozenset(("shape",))

    def read(self, side: Side) -> dict[str, Term]:
        shape = side.input_shape
        name = first_given(
            side, "shape", "size", "sizes", "shape_or_dtype", "dim", "axis", "start_dim", "start_axis"
        )
        if shape is None:
            return {}
        try:
            made = _result(side, shape)
        except (TypeError, ValueError, IndexError):
            return {}
        return {} if made is None else {"shape": Term(made, name, side.args.get(name) if name else made)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        names = side.signature.names
        if side.framework == base.framework and side.signature.names == base.signature.names:
            return {n: base.args[n] for n in names if n in self.takes and n in base.args}
        if "shape" not in terms:
            return None
        shape = terms["shape"].value
        target = next((n for n in ("shape", "size", "shape_or_dtype") if n in names), None)
        if target is not None and "dim" not in names and "axis" not in names:
            return {target: list(shape)}
        pairs = {
            "start_dim": "start_axis",
            "end_dim": "stop_axis",
            "dim": "axis",
            "sizes": "shape",
            "axis": "axis",
        }
        if side.framework != base.framework:
            if side.framework == "torch":
                pairs = {v: k for k, v in pairs.items()}
            mapped = {
                pairs.get(n, n): base.args[n]
                for n in base.signature.names
                if n in self.takes and n in base.args
            }
            return mapped if all(n in names for n in mapped) else None
        return None


def _result(side: Side, shape: Shape) -> Shape | None:
    args = side.args
    kind = side.signature.api.rpartition(".")[2].rstrip("_")
    rank = len(shape)
    if kind in ("flatten", "ravel"):
        start = front(args.get("start_dim", args.get("start_axis", 0)), max(rank, 1))
        end = front(args.get("end_dim", args.get("stop_axis", -1)), max(rank, 1))
        return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    axis = args.get("dim", args.get("axis"))
    if kind == "squeeze":
        if axis is None or axis == []:
            return tuple(n for n in shape if n != 1)
        axes = {front(a, rank) for a in (axis if isinstance(axis, (list, tuple)) else [axis])}
        return tuple(n for i, n in enumerate(shape) if i not in axes or n != 1)
    if kind == "unsqueeze":
        axes_in = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        for a in axes_in:
            place = front(a, len(shape) + 1)
            shape = (*shape[:place], 1, *shape[place:])
        return shape
    wanted = plain(args.get("shape", args.get("size", args.get("sizes", args.get("shape_or_dtype")))))
    if kind == "unflatten":
        if not isinstance(wanted, tuple) or axis is None:
            return None
        place = front(axis, rank)
        return (*shape[:place], *_filled(wanted, shape[place]), *shape[place + 1 :])
    if not isinstance(wanted, tuple) or not all(isinstance(n, int) for n in wanted):
        return None
    if side.framework == "paddle":
        # paddle's zero keeps the input's size at that place
        wanted = tuple(
            shape[i] if n == 0 and i < rank and 0 not in shape else n for i, n in enumerate(wanted)
        )
    return _filled(wanted, math.prod(shape))


def _filled(wanted: Shape, total: int) -> Shape:
    known = math.prod(n for n in wanted if n != -1)
    return tuple(total // known if n == -1 and known else n for n in wanted)


class Expand(Meaning):
    """``expand`` and ``broadcast_to``: read as the result's shape."""

    takes: ClassVar[frozenset[str]] = frozenset(("size", "shape"))
    terms: ClassVar[frozenset[str]] = frozenset(("size",))

    def read(self, side: Side) -> dict[str, Term]:
        name = first_given(side, "size", "shape")
        wanted = plain(side.args[name]) if name else UNKNOWN
        shape = side.input_shape
        if not isinstance(wanted, tuple) or not all(isinstance(n, int) for n in wanted):
            return {}
        if -1 in wanted:
            if shape is None or len(shape) > len(wanted):
                return {}
            padded = (1,) * (len(wanted) - len(shape)) + shape
            wanted = tuple(p if n == -1 else n for n, p in zip(wanted, padded))
        return {"size": Term(wanted, name, side.args[name] if name else None)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        name = "size" if "size" in side.signature.names else "shape"
        return {name: list(terms["size"].value)} if "size" in terms else None


class Tile(Meaning):
    """``tile`` and torch's ``repeat``: read as one number for each axis."""

    takes: ClassVar[frozenset[str]] = frozenset(("dims", "repeats", "repeat_times"))
    terms: ClassVar[frozenset[str]] = frozenset(("dims",))

    def read(self, side: Side) -> dict[str, Term]:
        name = first_given(side, "dims", "repeats", "repeat_times")
        times = plain(side.args[name]) if name else UNKNOWN
        if isinstance(times, int):
            times = (times,)
        if not isinstance(times, tuple) or not all(isinstance(n, int) for n in times):
            return {}
        shape = side.input_shape
        rank = len(times) if shape is None else max(len(shape), len(times))
        return {"dims": Term((1,) * (rank - len(times)) + times, name, side.args[name] if name else None)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        name = next(n for n in ("dims", "repeats", "repeat_times") if n in side.signature.names)
        return {name: list(terms["dims"].value)} if "dims" in terms else None
