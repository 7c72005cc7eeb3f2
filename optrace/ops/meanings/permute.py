"""Axes in another order: ``transpose``, ``permute``, ``swapaxes``, ``moveaxis``, ``t``, ``T``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import UNKNOWN, plain
from optrace.ops.meanings.base import Meaning, first_given, front
from optrace.ops.reading import Side, Term

_PAIRS = (("dim0", "dim1"), ("axis0", "axis1"))
_LISTS = ("dims", "perm")
_MOVES = ("source", "destination")


class Permute(Meaning):
    """Read as the order of the axes."""

    takes: ClassVar[frozenset[str]] = frozenset((*_PAIRS[0], *_PAIRS[1], *_LISTS, *_MOVES))
    terms: ClassVar[frozenset[str]] = frozenset(("order",))

    def read(self, side: Side) -> dict[str, Term]:
        shape = side.input_shape
        rank = None if shape is None else len(shape)
        args = side.args
        listed = first_given(side, *_LISTS)
        if listed is not None:
            order = plain(args[listed])
            if order is UNKNOWN or not isinstance(order, tuple):
                return {}
            return {"order": Term(tuple(front(i, len(order)) for i in order), listed, args[listed])}
        if rank is None:
            return {}
        for a, b in _PAIRS:
            if isinstance(args.get(a), int) and isinstance(args.get(b), int):
                return {"order": Term(_swapped(rank, args[a], args[b]), a, (args[a], args[b]))}
        if args.get("source") is not None and args.get("destination") is not None:
            moved = _moved(rank, args["source"], args["destination"])
            return {"order": Term(moved, "source", (args["source"], args["destination"]))} if moved else {}
        fixed = _fixed(side, rank)
        return {} if fixed is None else {"order": Term(fixed, None, None)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        if "order" not in terms:
            return None
        order = terms["order"].value
        names = side.signature.names
        listed = next((n for n in _LISTS if n in names), None)
        if listed is not None:
            return {listed: list(order)}
        off = [i for i, axis in enumerate(order) if i != axis]
        for a, b in _PAIRS:
            if a in names:
                if not off:
                    return {a: 0, b: 0}
                return {a: off[0], b: off[1]} if len(off) == 2 else None
        if "source" in names:
            return {"source": list(order), "destination": list(range(len(order)))}
        return {} if order == _fixed(side, len(order)) else None


def _fixed(side: Side, rank: int) -> tuple[int, ...] | None:
    """The order that a name without arguments stands for."""
    if side.signature.api.rpartition(".")[2] in ("mT", "mH", "adjoint", "matrix_transpose"):
        return _swapped(rank, -2, -1) if rank >= 2 else None
    return tuple(reversed(range(rank)))


def _swapped(rank: int, a: int, b: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank:
        i, j = front(a, rank), front(b, rank)
        order[i], order[j] = order[j], order[i]
    return tuple(order)


def _moved(rank: int, source: Any, destination: Any) -> tuple[int, ...] | None:
    starts = source if isinstance(source, (list, tuple)) else [source]
    ends = destination if isinstance(destination, (list, tuple)) else [destination]
    if not all(isinstance(v, int) for v in (*starts, *ends)):
        return None
    fixed = {front(e, rank): front(s, rank) for s, e in zip(starts, ends)}
    rest = iter(i for i in range(rank) if i not in fixed.values())
    return tuple(fixed[i] if i in fixed else next(rest) for i in range(rank))
