"""``optrace ops``: the op table as a person wants to read it."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from optrace.cli.output import fail, line, table
from optrace.ops.describe import parameters
from optrace.ops.differences import page
from optrace.ops.examples import example_of
from optrace.ops.schema import Row
from optrace.ops.stats import Names, statistics
from optrace.ops.table import load
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
SIDES = ("torch", "paddle")
OwnRows = Annotated[
    Optional[list[Path]],  # noqa: UP045 - typer reads it at run time
    typer.Option("--ops", metavar="FILE", help="Rows of your own, a file as in op_mappings; repeatable."),
]


def command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="An API name of either framework, or a part of one.")
    ] = "",
    ops: OwnRows = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="Count rows, names, and what the tests run.")
    ] = False,
    differences: Annotated[
        bool, typer.Option("--differences", help="Print docs/differences.md, made from the table.")
    ] = False,
) -> None:
    """Show which calls of the two frameworks do the same job, and where they differ.

    \b
    Examples:
      optrace ops                             the families, and how many rows each has
      optrace ops torch.nn.functional.gelu    its counterpart, arguments, differences
      optrace ops pool                        every row with pool in a name
      optrace ops --stats                     how much of the table the tests run
      optrace ops --ops my_ops.toml my_op     a row of your own
    """
    add_own_rows(ops)
    if stats or differences:
        _stats() if stats else typer.echo(page(op_table().rows), nl=False)
        return
    if not name:
        _families()
        return
    found = op_table().rows_of(name) or [row for row in op_table().rows if row.name == name]
    if not found:
        found = [row for row in op_table().rows if _mentions(row, name)]
    if not found:
        near = nearest(name)
        fail(
            f"the op table has no row for {name!r}"
            + (f"; did you mean {', '.join(near)}?" if near else "")
            + "; rows of your own come in through --ops or OPTRACE_OPS"
        )
    if len(found) > 3:
        _list(name, found)
        return
    for index, row in enumerate(found):
        if index:
            line()
        _row(row)


def add_own_rows(files: Sequence[Path] | None) -> None:
    """Load the files given by ``--ops``."""
    for path in files or ():
        load(path)


def nearest(name: str) -> list[str]:
    """Known names that are written almost like ``name``, by their last parts; of its namespace first."""
    space, _, last = name.rpartition(".")
    known: dict[str, list[str]] = {}
    for row in op_table().rows:
        for full in (*row.names("torch"), *row.names("paddle")):
            if "_C_ops" not in full:
                known.setdefault(full.rpartition(".")[2].lower(), []).append(full)
    close = difflib.get_close_matches(last.lower(), known, n=4, cutoff=0.75)
    found = dict.fromkeys(full for part in close for full in known[part])
    framework = name.partition(".")[0] if space else ""
    return sorted(found, key=lambda n: (n.rpartition(".")[0] != space, not n.startswith(framework)))[:5]


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
    both = bool(row.torch and row.paddle)
    shown = [(_first(row, "torch"), _first(row, "paddle"), "")]
    shown += [(f"  {p.torch}", f"  {p.paddle}", p.note) for p in parameters(row)]
    table(shown, indent=2)
    picked = [(side, getattr(row.results, side)) for side in SIDES]
    corresponding = [f"{side}: {', '.join(map(str, which))}" for side, which in picked if which]
    others = [(side, name) for side in SIDES for name in row.listed(side)[1:]]
    for title, texts in (
        ("other names", [text for _, text in others]),
        ("arguments", [f"read together as {row.meaning}"] if row.meaning else []),
        ("result", [f"axes {row.layout['out']} of torch's in paddle"] if "out" in row.layout else []),
        ("results that correspond, counted from 0", corresponding),
        ("they differ", row.differences),
        ("closest", [row.closest]),
        ("in versions", [f"{s} {v}" for s in SIDES if (v := getattr(row.versions, s))]),
        ("not run by the tests" if both else "no row with two sides", [row.reason]),
        ("not run by the tests", [f"{name}: {why}" for name, why in row.unexecuted.items()]),
    ):
        _titled(title, texts, "- ")
    _example(row)


def _titled(title: str, texts: Sequence[str], mark: str = "") -> None:
    if any(texts):
        line(f"  {title}")
        for text in texts:
            line(f"    {mark}{text}")


def _example(row: Row) -> None:
    example = example_of(row)
    if example is None:
        return
    made = ["rng = np.random.default_rng(0)"] if any("rng." in text for text in example.inputs) else []
    _titled("for example", [*made, *example.inputs, example.torch, example.paddle])


def _stats() -> None:
    found = statistics()
    line(f"{counted(found.rows, 'row')} in the op table", bold=True)
    one_sided = found.rows - found.paired
    table(
        [
            *((f"names of {side}", _told(getattr(found, side))) for side in SIDES),
            ("rows with both sides", str(found.paired)),
            ("rows run forward", str(found.executed)),
            ("rows run backward too", str(found.with_gradients)),
            ("examples", str(found.examples)),
            ("expansions", str(found.expansions)),
            ("differences told", str(found.differences)),
            ("rows with one side", str(one_sided)),
            ("rows with both sides, not run", str(found.paired - found.executed)),
        ],
        indent=2,
    )
    table([(str(count), reason) for reason, count in found.unexecuted.items()], indent=4)


def _told(names: Names) -> str:
    share = names.executed / names.counterparts
    return (
        f"{names.all}; {names.counterparts} are tensor calls with a counterpart, "
        f"{names.executed} of them run ({share:.1%}), {names.with_gradients} backward too"
    )
