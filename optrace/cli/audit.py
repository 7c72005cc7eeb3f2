"""``optrace audit``: what is random in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import optrace
from optrace.cli.output import line, table
from optrace.cli.script import Program
from optrace.report import text as words


def command(
    target: Annotated[str, typer.Argument(metavar="DIR|SCRIPT", help="A saved trace, or a script to run.")],
) -> None:
    """List every call that drew random numbers, where, and whether the draw took effect.

    Draws made in worker processes (a data loader's) are not seen.

    \b
    Examples:
      optrace audit runs/base
      optrace audit train.py
    """
    subject: Any = target
    if Path(target).suffix == ".py":
        program = Program(target, (), as_module=False)
        program.prepare()
        subject = program.run
    found = optrace.audit_random(subject)
    if not found:
        line("no random call")
        return
    effective = sum(bool(op.effective) for op in found)
    line(f"{words.counted(len(found), 'random call')}, {effective} with effect", bold=True)
    rows = [("call", "effect", "draws", "p", "generator", "seeded", "times", "module", "line")]
    for op in found:
        rows.append(
            (
                op.api,
                "yes" if op.effective else "no",
                op.distribution,
                "" if op.p is None else f"{op.p:g}",
                op.generator,
                ("yes" if op.seeded else "no") if op.effective else "",
                str(op.calls),
                op.module or "",
                words.place(op.site),
            )
        )
    table(rows, indent=2)
    for op in found:
        if op.note:
            line(f"  note: {op.api} ({words.place(op.site)}): {op.note}")
