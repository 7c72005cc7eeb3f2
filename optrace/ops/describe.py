"""A row's parameters side by side: how each is called, what it is by default, how its values translate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from optrace.ops.differences import default_differences
from optrace.ops.reading import same
from optrace.ops.schema import Row
from optrace.ops.signature import MISSING, Parameter, parse

CONVERTED = {
    "complement": "1 - value",
    "negation": "not value",
    "opposite": "-value",
    "inverse": "1 / value",
    "listed": "a list in paddle",
    "single": "a list in paddle",
}


class Line(NamedTuple):
    """One parameter on both sides, empty where a side lacks it, and what there is to say about it."""

    torch: str
    paddle: str
    note: str


def parameters(row: Row) -> list[Line]:
    """The parameters of the first names, in torch's order, then what only paddle has."""
    ours = _parameters(row, "torch")
    theirs = _parameters(row, "paddle")
    unlike = {name for a, _, b, _ in default_differences(row) for name in (a, b) if name}
    lines = []
    for name, parameter in ours.items():
        other = theirs.pop(row.args.get(name, name), None)
        notes = list(_notes(row, parameter, other, unlike))
        lines.append(Line(_text(parameter), _text(other), "; ".join(notes)))
    for parameter in theirs.values():
        lines.append(Line("", _text(parameter), "; ".join(_notes(row, None, parameter, unlike))))
    return lines


def _parameters(row: Row, side: str) -> dict[str, Parameter]:
    entries = row.listed(side)
    return {p.name: p for p in parse(entries[0]).parameters} if entries else {}


def _text(parameter: Parameter | None) -> str:
    if parameter is None:
        return ""
    star = "*" if parameter.kind == "varargs" else ""
    return f"{star}{parameter.name}" + ("" if parameter.default is MISSING else f"={parameter.default!r}")


def _notes(row: Row, ours: Parameter | None, theirs: Parameter | None, unlike: set[str]) -> Iterator[str]:
    if any(p is not None and p.name in unlike for p in (ours, theirs)):
        yield "OTHER DEFAULT"
    if ours is None or theirs is None:
        only = ours or theirs
        assert only is not None
        assumed = row.assumes.torch if theirs is None else row.assumes.paddle
        if only.name in assumed:
            same_default = same(only.default, assumed[only.name])
            yield f"{'equal only' if same_default else 'equal'} at {assumed[only.name]!r}"
        return
    for name in (ours.name, theirs.name):
        if name in row.values:
            yield ", ".join(f"{a!r} is {b!r}" for a, b in row.values[name])
            break
    if ours.name in row.convert:
        yield CONVERTED.get(row.convert[ours.name], row.convert[ours.name])
    if ours.name in row.layout:
        yield f"axes {row.layout[ours.name]} of torch's"
