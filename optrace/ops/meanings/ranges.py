"""``arange(end)``, ``arange(start, end, step)``: one argument alone is the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import plain
from optrace.ops.meanings.base import Meaning
from optrace.ops.reading import Side, Term


class Range(Meaning):
    """Read as start, end and step."""

    takes: ClassVar[frozenset[str]] = frozenset(("start", "end", "step"))
    terms: ClassVar[frozenset[str]] = frozenset(("start", "end", "step"))

    def read(self, side: Side) -> dict[str, Term]:
        args = side.args
        start, end = args.get("start", 0), args.get("end")
        names: tuple[str | None, str] = ("start", "end")
        if end is None:
            start, end = 0, start
            names = (None, "start" if args.get("start") is not None else "end")
        return {
            "start": Term(plain(start), names[0], start),
            "end": Term(plain(end), names[1], end),
            "step": Term(plain(args.get("step", 1)), "step", args.get("step", 1)),
        }

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        return {name: terms[name].value for name in ("start", "end", "step") if name in terms}
