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
    rows = [("call", "effect", "p", "seeded", "times", "module", "line")]
    for op in found:
        count = op.calls if isinstance(op.calls, int) else len(op.calls)
        rows.append(
            (
                op.api,
                "yes" if op.effective else "no",
                "" if op.p is None else f"{op.p:g}",
                "yes" if op.seeded else "no",
                str(count),
                op.module or "",
                words.place(op.site),
            )
        )
    table(rows, indent=2)
