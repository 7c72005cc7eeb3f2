"""Subscripts: one index for each axis of the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.meanings.base import Meaning
from optrace.ops.reading import Side, Term


class Index(Meaning):
    """Read as a tuple with ranges counted from the front; tensors in it are left to the values."""

    takes: ClassVar[frozenset[str]] = frozenset(("index", "indices", "item"))
    terms: ClassVar[frozenset[str]] = frozenset(("index",))

    def read(self, side: Side) -> dict[str, Term]:
        name = next((n for n in ("index", "indices", "item") if n in side.args), None)
        shape = side.input_shape
        if name is None or shape is None:
            return {}
        normal = _normal(side.args[name], shape)
        return {} if normal is None else {"index": Term(normal, name, side.args[name])}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        name = next((n for n in ("index", "indices", "item") if n in side.signature.names), None)
        own = next((n for n in ("index", "indices", "item") if n in base.args), None)
        return {name: base.args[own]} if name is not None and own is not None else None


def _normal(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    items = list(index) if isinstance(index, tuple) else [index]
    if not all(i is None or i is ... or isinstance(i, (int, slice)) for i in items):
        return None
    used = sum(i is not None and i is not ... and not isinstance(i, bool) for i in items)
    if used > len(shape) or any(isinstance(i, bool) for i in items):
        return None
    if ... in items:
        at = items.index(...)
        items[at : at + 1] = [slice(None)] * (len(shape) - used)
    else:
        items += [slice(None)] * (len(shape) - used)
    found: list[Any] = []
    axis = 0
    for item in items:
        if item is None:
            found.append("new")
            continue
        length = shape[axis]
        axis += 1
        if isinstance(item, int):
            found.append(item + length if item < 0 else item)
            continue
        if not all(p is None or isinstance(p, int) for p in (item.start, item.stop, item.step)):
            return None
        found.append(tuple(range(*item.indices(length))) if length <= 1 << 16 else item.indices(length))
    return tuple(found)
