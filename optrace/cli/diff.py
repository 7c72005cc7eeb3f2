"""``optrace diff``: compare two saved traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

import optrace
from optrace.cli.ops import OwnRows, add_own_rows
from optrace.cli.output import color, note, progress, width
from optrace.progress import shown_by


def command(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Trace of the reference side.")],
    raw: Annotated[Path, typer.Argument(metavar="RAW", help="Trace of the side under test.")],
    html: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="FILE", help="Write the report as one HTML file too."),
    ] = None,
    json: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the report as JSON too (docs/report-json.md)."),
    ] = None,
    sarif: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the findings as SARIF too, for code hosts."),
    ] = None,
    rtol: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Relative tolerance, instead of the one that follows from the dtypes."),
    ] = None,
    atol: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Absolute tolerance, likewise."),
    ] = None,
    ops: OwnRows = None,
) -> None:
    """Compare two traces and name every call that causes a difference.

    Both runs must have been fed the same inputs and weights. Exit status: 0 aligned, 1 findings,
    2 could not compare.

    \b
    Examples:
      optrace diff runs/base runs/raw
      optrace diff runs/base runs/raw --html report.html --json report.json
    """
    add_own_rows(ops)
    with progress("comparing") as show, shown_by(show):
        report = optrace.diff(base, raw, rtol=rtol, atol=atol)
    from optrace.report.terminal import render

    typer.echo(render(report, color=color(), width=width()))
    for path, write in ((html, report.to_html), (json, report.to_json), (sarif, report.to_sarif)):
        if path is not None:
            write(path)
            note(f"wrote {path}")
    raise SystemExit(0 if report else 1)
