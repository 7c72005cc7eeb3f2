"""Printing for the commands: colour only on a terminal, errors on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from optrace.report.text import clean

if TYPE_CHECKING:
    from rich.progress import Task

CANNOT = 2


def color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def width() -> int:
    """Columns of the terminal, at most 120; 80 in a pipe."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 120) if sys.stdout.isatty() else 80


def fail(message: str) -> NoReturn:
    """One message on standard error, exit status 2."""
    typer.echo(f"optrace: {message}", err=True)
    raise SystemExit(CANNOT)


def note(message: str) -> None:
    """A remark that must not mix with the program's or the command's own output."""
    typer.echo(f"optrace: {message}", err=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar with its rate on standard error, where that is a terminal; the function takes (done, total, name)."""
    if not sys.stderr.isatty():
        yield lambda done, total, name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
    from rich.text import Text

    class Rate(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, Rate(""), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total or None, description=clean(name, 60)
        )


def line(text: str = "", **style: bool | str) -> None:
    """One line of output, hostile characters spelled out."""
    shown = clean(text, 2000)
    typer.echo(typer.style(shown, **style) if style and color() else shown)  # type: ignore[arg-type]


def table(rows: Iterable[Sequence[str]], indent: int = 0) -> None:
    """Columns side by side, as wide as they need to be."""
    lines = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)] if lines else []
    for cells in lines:
        line(" " * indent + "  ".join(cell.ljust(w) for cell, w in zip(cells, widths)).rstrip())
