"""The report as text: the verdict, then each finding, then warnings and evidence."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from optrace.diagnose.findings import Finding
from optrace.report import text as words
from optrace.trace.records import Call

if TYPE_CHECKING:
    from optrace.report.model import Report

MOST_WARNINGS = 10
MOST_RANDOM = 12
_LABEL = 6


def render(report: Report, color: bool | None = None, width: int = 80) -> str:
    """The report for a terminal ``width`` columns wide. ``color=None``: when standard output is one."""
    if color is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 40),
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    _write(console, report)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _write(console: Console, report: Report) -> None:
    style = "bold green" if report else "bold red"
    console.print(_text(words.verdict(report.findings, report.evidence), style))
    for side, trace in (("base", report.base), ("raw", report.raw)):
        console.print(_text(f"{side:<5}{words.versions(trace.meta)}", "dim"))
    for index, finding in enumerate(report.findings, 1):
        console.print()
        _finding(console, index, finding)
    if report.warnings:
        console.print()
        _warnings(console, report)
    if report.random_ops:
        console.print()
        _random(console, report)
    console.print()
    console.print(_text("Evidence", "bold"))
    for line in words.evidence_lines(report.evidence):
        console.print(_item(line))
    for side, trace in (("base", report.base), ("raw", report.raw)):
        for line in words.unseen(trace):
            console.print(_item(f"{side}: {line}"))


def _finding(console: Console, index: int, finding: Finding) -> None:
    stage = "" if finding.stage == "forward" else f" [{finding.stage}]"
    step = f" [step {finding.step}]" if finding.step else ""
    console.print(_text(f"{index}. {words.headline(finding)}{stage}{step}", "bold yellow"))
    console.print(Padding(_text(finding.message, longest=400), (0, 0, 0, 3)))
    grid = _grid()
    _side(grid, "base", finding.base, finding)
    _side(grid, "raw", finding.raw, finding)
    for label, line in words.errors(finding.error):
        grid.add_row(_text("error", "bold"), _text(f"{label}:"))
        grid.add_row("", _text(line))
    grid.add_row(_text("reach", "bold"), _text(words.reach(finding.spread)))
    if finding.occurrences > 1:
        grid.add_row(_text("often", "bold"), _text(f"in {finding.occurrences} runs of this line"))
    if finding.suggestion:
        grid.add_row(_text("try", "bold"), _text(finding.suggestion, "green", 400))
    console.print(Padding(grid, (0, 0, 0, 3)))


def _side(grid: Table, side: str, call: Call | None, finding: Finding) -> None:
    label = _text(side, "bold")
    if call is None:
        grid.add_row(label, _text("no counterpart", "dim"))
        return
    shown = _text(call.api, "cyan")
    for difference in finding.differences:
        shown.append("  ")
        shown.append(words.clean(words.side_of(difference, side), 120), "bold magenta")
    grid.add_row(label, shown)
    owner = words.module(call)
    if owner:
        grid.add_row("", _text(owner))
    grid.add_row("", _text(words.place(call.site), "dim"))
    if call.site is not None and call.site.code:
        grid.add_row("", _text(f"> {call.site.code}"))


def _warnings(console: Console, report: Report) -> None:
    console.print(_text("Warnings: other code, same numbers in this run", "bold"))
    found = words.grouped(report.warnings)
    for warning, count in found[:MOST_WARNINGS]:
        times = f" ({count} times)" if count > 1 else ""
        console.print(_item(f"{warning.message}{times}"))
        call = warning.raw or warning.base
        if call is not None:
            console.print(Padding(_text(words.place(call.site), "dim"), (0, 0, 0, 4)))
    if len(found) > MOST_WARNINGS:
        console.print(_item(f"and {len(found) - MOST_WARNINGS} more"))


def _random(console: Console, report: Report) -> None:
    console.print(_text("Random calls", "bold"))
    for op in report.random_ops[:MOST_RANDOM]:
        share = [] if op.p is None else [f"p={op.p:g}"]
        often = [f"{op.calls} times"] if op.calls > 1 else []
        effect = [] if op.effective else ["without effect"]
        said = ", ".join(share + often + effect)
        console.print(_item(f"{op.api}  ({said})" if said else op.api))
        console.print(Padding(_text(words.place(op.site), "dim"), (0, 0, 0, 4)))
    if len(report.random_ops) > MOST_RANDOM:
        console.print(_item(f"and {len(report.random_ops) - MOST_RANDOM} more; optrace audit lists them all"))


def _item(content: str) -> Padding:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row("-", _text(content, longest=400))
    return Padding(grid, (0, 0, 0, 2))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_LABEL)
    grid.add_column(overflow="fold")
    return grid


def _text(content: str, style: str = "", longest: int = words.LONGEST) -> Text:
    return Text(words.clean(content, longest), style=style, overflow="fold")
