"""Whether a row only speaks of parameters that its signatures have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optrace.errors import OpTableError
from optrace.ops.schema import SWITCHES, Row
from optrace.ops.signature import parse

SIDES = ("torch", "paddle")


def check_parameters(row: Row) -> None:
    """Raises ``OpTableError`` naming the file, the row and the field."""
    for field, problem in problems(row):
        raise OpTableError(f"{row.file}: row {row.name}, field {field}: {problem}")


def problems(row: Row) -> Iterator[tuple[str, str]]:
    """Fields that name something unknown, each with what is wrong."""
    known: dict[str, set[str]] = {"torch": set(), "paddle": set()}
    for side in SIDES:
        for entry in row.listed(side):
            try:
                known[side].update(parse(entry).names)
            except OpTableError as error:
                yield side, str(error)
                return
    torch, paddle = known["torch"], known["paddle"]
    both = torch | paddle
    checks: tuple[tuple[str, Iterable[str], set[str]], ...] = (
        ("args", row.args, torch),
        ("args", row.args.values(), paddle),
        ("forms", row.forms, both),
        ("values", row.values, both),
        ("convert", row.convert, both),
        ("assumes.torch", row.assumes.torch, torch),
        ("assumes.paddle", row.assumes.paddle, paddle),
        ("examples", (name for example in row.examples for name in example), torch | SWITCHES),
        ("unexecuted", row.unexecuted, {*row.names("torch"), *row.names("paddle")}),
    )
    for field, names, allowed in checks:
        for name in names:
            if name not in allowed:
                yield field, f"{name!r} is none of {', '.join(sorted(allowed))}"
