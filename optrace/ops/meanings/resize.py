"""Resampling: an output size or a factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import UNKNOWN, plain
from optrace.ops.meanings.base import Meaning, first_given
from optrace.ops.reading import Side, Term


class Resize(Meaning):
    """Read as the output size and the factor that the coordinates are computed with.

    A factor that leads to a whole number of pixels is the same as giving that size; with one that
    does not, the two sample at other places.
    """

    takes: ClassVar[frozenset[str]] = frozenset(("size", "scale_factor", "recompute_scale_factor"))
    terms: ClassVar[frozenset[str]] = frozenset(("size",))

    def read(self, side: Side) -> dict[str, Term]:
        name = first_given(side, "size", "scale_factor")
        shape = side.input_shape
        if name is None or shape is None or len(shape) < 3:
            return {}
        value = plain(side.args[name])
        rank = len(shape) - 2
        if value is UNKNOWN or isinstance(value, str):
            return {}
        each = value if isinstance(value, tuple) else (value,) * rank
        space = shape[1:-1] if str(side.args.get("data_format", "NCHW")).endswith("C") else shape[2:]
        if len(each) != rank or not all(isinstance(n, (int, float)) for n in each):
            return {}
        if name == "size":
            return {"size": Term(tuple(each), name, side.args[name])}
        exact = [n * f for n, f in zip(space, each)]
        if all(abs(e - round(e)) < 1e-6 for e in exact) or side.args.get("recompute_scale_factor"):
            return {"size": Term(tuple(int(e + 1e-6) for e in exact), name, side.args[name])}
        return {"size": Term(("factor", *each), name, side.args[name])}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        if "size" not in terms:
            return None
        value = terms["size"].value
        if value and value[0] == "factor":
            return {"size": None, "scale_factor": list(value[1:])}
        return {"size": list(value), "scale_factor": None}
