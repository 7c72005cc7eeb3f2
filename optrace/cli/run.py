"""``optrace run``: trace an unmodified program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

import optrace
from optrace.cli.output import fail, note
from optrace.cli.script import Program, print_exception
from optrace.report.text import counted
from optrace.trace.selection import Selection
from optrace.trace.store import is_trace

_VALUED = frozenset({"-o", "--out", "--level", "--steps", "--every", "--scope", "--ops"})
_VERBOSE = frozenset({"-v", "-vv", "--verbose"})


def command(
    program: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads it at run time
        typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its arguments.", show_default=False),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("-o", "--out", metavar="DIR", help="Folder for the trace [default: NAME.optrace]."),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            help="How much of each tensor to keep: meta, stats (a fingerprint) or full (the values)."
        ),
    ] = "stats",
    module: Annotated[
        str, typer.Option("-m", "--module", metavar="MODULE", help="Run a module, as python -m does.")
    ] = "",
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Record this many training steps, told by optimizer.step() [default: all]."),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Record each so-many-th training step only.")] = 1,
    scope: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="PATH", help="Record the module at PATH only (encoder.layers.0); may be repeated."
        ),
    ] = None,
    ops: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="PATTERN", help="Record calls of that name only (*.linear); may be repeated."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the trace that DIR holds from an earlier run.")
    ] = False,
) -> None:
    """Run a program unmodified and record every call that it makes to torch and paddle.

    Its output, its exit status and its exceptions are its own. The trace is written also when it
    fails, up to the call where it did. A trace in the folder that -o names is replaced with --force
    only; NAME.optrace always holds the latest run.

    \b
    Examples:
      optrace run train.py --epochs 1
      optrace run -o runs/base --level full evaluate.py
      optrace run -o runs/base --level full --steps 100 --every 10 train.py
      optrace run -m my_project.train --config small.yaml
    """
    if level not in ("meta", "stats", "full"):
        fail(f"--level is one of meta, stats, full; not {level!r}")
    words = list(program or ())
    if not module and not words:
        fail("name a script to run (or -m MODULE); optrace run --help shows examples")
    target, arguments = (module, words) if module else (words[0], words[1:])
    code = Program(target, arguments, as_module=bool(module))
    folder = out or Path(f"{module.rpartition('.')[2] or Path(target).stem}.optrace")
    if out is not None and not force and is_trace(out):
        fail(f"{out} holds the trace of an earlier run; name another folder, or replace it with --force")
    select = Selection(steps, every, tuple(scope or ()), tuple(ops or ()))
    raise SystemExit(_traced(code, folder, level, select))


def _traced(program: Program, folder: Path, level: str, select: Selection) -> int | str | None:
    status: int | str | None = 0
    failure: BaseException | None = None
    program.prepare()
    session = optrace.trace(level=level, out=folder, select=select)
    session.tell = note  # type: ignore[method-assign, assignment]
    with session as trace:
        try:
            program.run()
        except SystemExit as stop:
            status = stop.code
        except BaseException as error:
            failure = error
            trace.end_with(error)
            status = 130 if isinstance(error, KeyboardInterrupt) else 1
    if failure is not None:
        print_exception(failure)
    note(f"{len(trace.calls):,} calls written to {folder}")
    for name, count in trace.meta.get("opaque", {}).items():
        note(f"not traced, runs without being seen: {name} ({counted(count, 'time')})")
    if not trace.calls:
        note("the program made no call to torch or paddle that could be recorded")
    return status


def separated(words: Sequence[str]) -> list[str]:
    """The command line with ``--`` after ``run -m MODULE``: what follows belongs to the module."""
    at = next((i for i, word in enumerate(words) if word not in _VERBOSE), len(words))
    if at == len(words) or words[at] != "run":
        return list(words)
    at += 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] in ("-m", "--module"):
            return [*words[: at + 2], "--", *words[at + 2 :]]
        at += 2 if words[at] in _VALUED else 1
    return list(words)
