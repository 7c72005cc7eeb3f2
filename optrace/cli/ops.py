"""``optrace ops``: the op table as a person wants to read it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from optrace.cli.output import fail, line, table
from optrace.ops.schema import Row
from optrace.ops.table import table as op_table
from optrace.report.text import counted

_KINDS = {
    "compute": "computes",
    "move": "only moves data",
    "create": "creates tensors",
    "random": "draws random numbers",
    "composite": "made of several calls",
}
MOST_SUGGESTIONS = 40


def command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="An API name of either framework, or a part of one.")
    ] = "",
) -> None:
    """Show which calls of the two frameworks do the same job, and where they differ.

    \b
    Examples:
      optrace ops                             the families, and how many rows each has
      optrace ops torch.nn.functional.gelu    its counterpart, arguments, differences
      optrace ops pool                        every row with pool in a name
    """
    if not name:
        _families()
        return
    found = op_table().rows_of(name) or [row for row in op_table().rows if row.name == name]
    if not found:
        found = [row for row in op_table().rows if _mentions(row, name)]
    if not found:
        fail(f"the op table has no row for {name!r}; rows of your own come in through OPTRACE_OPS")
    if len(found) > 3:
        _list(name, found)
        return
    for index, row in enumerate(found):
        if index:
            line()
        _row(row)


def _mentions(row: Row, part: str) -> bool:
    low = part.lower()
    return any(low in n.lower() for n in (row.name, *row.names("torch"), *row.names("paddle")))


def _families() -> None:
    rows = op_table().rows
    line(f"{counted(len(rows), 'row')} in the op table", bold=True)
    sizes = Counter(Path(row.file).stem for row in rows)
    table([(family, counted(size, "row")) for family, size in sorted(sizes.items())], indent=2)
    line("optrace ops NAME shows a row; a part of a name lists the rows that hold it")


def _list(name: str, rows: list[Row]) -> None:
    line(f"{counted(len(rows), 'row')} with {name!r}", bold=True)
    shown = [("row", "torch", "paddle")]
    for row in rows[:MOST_SUGGESTIONS]:
        shown.append((row.name, _first(row, "torch"), _first(row, "paddle")))
    table(shown, indent=2)
    if len(rows) > MOST_SUGGESTIONS:
        line(f"  and {len(rows) - MOST_SUGGESTIONS} more")


def _first(row: Row, side: str) -> str:
    return next(iter(row.names(side)), "none")


def _row(row: Row) -> None:
    line(f"{row.name} ({Path(row.file).stem}): {_KINDS[row.kind]}", bold=True)
    for side in ("torch", "paddle"):
        names = row.listed(side) or ["no counterpart"]
        table([(side if not i else "", name) for i, name in enumerate(names)], indent=2)
    arguments = [(f"{torch} -> {paddle}", "renamed") for torch, paddle in row.args.items()]
    arguments += [(p, ", ".join(f"{a!r} -> {b!r}" for a, b in pairs)) for p, pairs in row.values.items()]
    arguments += [(parameter, f"converted by {how}") for parameter, how in row.convert.items()]
    if row.meaning:
        arguments.append(("all together", f"read as {row.meaning}"))
    if arguments:
        line("  arguments, torch -> paddle")
        table(arguments, indent=4)
    for title, texts in (
        ("they differ", row.differences),
        ("closest", [row.closest]),
        ("not executed", [row.reason]),
    ):
        if any(texts):
            line(f"  {title}")
            for text in texts:
                line(f"    - {text}")
