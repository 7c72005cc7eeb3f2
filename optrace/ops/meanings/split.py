"""Cutting along an axis: sizes of parts (torch's ``split``) or counts (paddle's, ``chunk``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import plain
from optrace.ops.meanings.base import Meaning, first_given, front
from optrace.ops.reading import Side, Term

_NAMES = (
    "split_size_or_sections",
    "split_size",
    "split_sizes",
    "chunks",
    "num_or_sections",
    "sections",
    "num",
)
_AXES = ("dim", "axis")


class Split(Meaning):
    """Read as the sizes of the parts and the axis."""

    takes: ClassVar[frozenset[str]] = frozenset((*_NAMES, *_AXES))
    terms: ClassVar[frozenset[str]] = frozenset(("sizes", "dim"))

    def read(self, side: Side) -> dict[str, Term]:
        shape = side.input_shape
        axis_name = next((n for n in _AXES if n in side.args), None)
        axis = side.args.get(axis_name, 0) if axis_name else 0
        if shape is None or not isinstance(axis, int) or not shape:
            return {}
        found = {"dim": Term(front(axis, len(shape)), axis_name, axis)}
        name = first_given(side, *_NAMES)
        sizes = _sizes(name, side, shape[front(axis, len(shape))]) if name else None
        if sizes is not None:
            found["sizes"] = Term(sizes, name, side.args[name or ""])
        return found

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        if "sizes" not in terms or "dim" not in terms:
            return None
        names = side.signature.names
        name = next((n for n in _NAMES if n in names), None)
        axis = next((n for n in _AXES if n in names), None)
        sizes = list(terms["sizes"].value)
        if name is None or (axis is None and terms["dim"].value != 0):
            return None
        even = len(set(sizes)) == 1
        if name in ("chunks", "num") and not even:
            return None
        value: Any = sizes
        if name in ("chunks", "num"):
            value = len(sizes)
        elif name == "split_size":
            value = sizes[0]
        return {name: value, **({axis: terms["dim"].value} if axis else {})}


def _sizes(name: str, side: Side, length: int) -> tuple[int, ...] | None:
    value = plain(side.args[name])
    if isinstance(value, tuple):
        if not all(isinstance(n, int) for n in value):
            return None
        known = sum(n for n in value if n >= 0)
        return tuple(length - known if n < 0 else n for n in value)
    if not isinstance(value, int) or value <= 0:
        return None
    if name == "chunks" and side.framework == "torch":
        value = max(-(-length // value), 1)
    elif name not in ("split_size_or_sections", "split_size"):
        return (length // value,) * value if length % value == 0 else None
    return tuple(min(value, length - i) for i in range(0, max(length, 1), value))
