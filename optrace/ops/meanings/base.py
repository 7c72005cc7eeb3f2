"""What a joint reading offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from optrace.ops.reading import Side, Term


class Meaning:
    """Reads several arguments (``takes``, names of either side) as shared ``terms``."""

    takes: ClassVar[frozenset[str]] = frozenset()
    terms: ClassVar[frozenset[str]] = frozenset()

    def read(self, side: Side) -> dict[str, Term]:
        """The terms of a call; an unknown value where the call does not tell."""
        raise NotImplementedError

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        """The terms as arguments of ``side``; ``None`` when it has no words for them."""
        raise NotImplementedError


def first_given(side: Side, *names: str) -> str | None:
    """The first of these parameters that has a value."""
    return next((n for n in names if side.args.get(n) is not None), None)


def front(axis: Any, rank: int) -> int:
    """An axis counted from the front."""
    return int(axis) + rank if axis < 0 else int(axis)
