"""``optrace show``: what a trace holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Optional

import typer

import optrace
from optrace.cli.output import fail, line, table
from optrace.report import text as words
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A saved trace.")],
    call: Annotated[
        Optional[int],  # noqa: UP045 - typer reads it at run time
        typer.Argument(
            metavar="CALL", help="Show this one call in detail, by its number.", show_default=False
        ),
    ] = None,
    api: Annotated[str, typer.Option(metavar="TEXT", help="Only calls whose API name contains TEXT.")] = "",
    module: Annotated[
        str, typer.Option(metavar="TEXT", help="Only calls in modules whose path contains TEXT.")
    ] = "",
    file: Annotated[
        str, typer.Option(metavar="TEXT", help="Only calls from files whose path contains TEXT.")
    ] = "",
    phase: Annotated[
        str, typer.Option(help="Only this phase: forward, loss, backward, optimizer, data.")
    ] = "",
    step: Annotated[int, typer.Option(help="Only this training step.", show_default=False)] = -1,
    depth: Annotated[int, typer.Option(help="Levels of calls inside calls to show.")] = 1,
    limit: Annotated[int, typer.Option(help="Show at most so many calls; 0 for all.")] = 200,
) -> None:
    """Show what a trace holds: a header, then its calls with their source lines.

    \b
    Examples:
      optrace show runs/base
      optrace show runs/base --module encoder.0 --depth 3
      optrace show runs/base --api softmax --limit 0
      optrace show runs/base 42
    """
    trace = optrace.load(folder)
    if call is not None:
        if not 0 <= call < len(trace.calls):
            fail(f"there is no call {call} in {folder}; it holds calls 0 to {len(trace.calls) - 1}")
        _detail(trace, trace.calls[call])
        return
    _header(folder, trace)

    def wanted(c: Call) -> bool:
        return (
            api in c.api
            and module in (c.module or "")
            and file in (c.site.file if c.site else "")
            and phase in ("", c.phase)
            and step in (-1, c.step)
        )

    filtered = bool(api or module or file or phase or step != -1)
    found = ((c, 0) for c in trace.calls if wanted(c)) if filtered else _tree(trace, -1, 0, depth)
    shown = 0
    for c, level in found:
        if limit and shown == limit:
            line(f"... stopped after {limit} calls; --limit 0 shows all")
            break
        shown += 1
        _call(c, level)
    if not shown:
        line("no such call")


def _tree(trace: Trace, parent: int, level: int, depth: int) -> Iterator[tuple[Call, int]]:
    for c in trace.children_of(parent):
        yield c, level
        if level + 1 < depth:
            yield from _tree(trace, c.id, level + 1, depth)


def _header(folder: Path, trace: Trace) -> None:
    meta = trace.meta
    line(f"{folder}: {words.counted(len(trace.calls), 'call')}, level {trace.level}", bold=True)
    created = meta.get("created")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created)) if created else "unknown"
    rows = [
        ("versions", f"{words.versions(meta)}, python {meta.get('python', 'unknown')}"),
        ("created", when),
        ("command", " ".join(meta.get("argv", ()))),
    ]
    if meta.get("ended"):
        rows.append(
            ("ended with", f"{meta['ended']}" + (f" at {meta['ended_at']}" if meta.get("ended_at") else ""))
        )
    rows += [("note", text) for text in words.unseen(trace)]
    table(rows, indent=2)
    line()


def _call(c: Call, level: int) -> None:
    marks = "".join(
        f" [{m}]" for m in (c.phase if c.phase != "forward" else "", "random" if c.random else "") if m
    )
    failed = f"  raised {c.error}" if c.error else ""
    line(f"{c.id:>6}  {'  ' * level}{words.signature(c)}{_result(c)}{marks}{failed}", bold=not level)
    where = ", ".join(w for w in (words.module(c), words.place(c.site) if c.site else "") if w)
    line(f"        {'  ' * level}{where}", dim=True)


def _result(c: Call) -> str:
    found = tensors_in(c.outputs)
    return f" -> {', '.join(map(words.value, found[:4]))}" if found else ""


def _detail(trace: Trace, c: Call) -> None:
    line(f"call {c.id}: {c.api}", bold=True)
    rows = [
        ("framework", c.framework),
        ("phase", f"{c.phase}, step {c.step}"),
        ("module", words.module(c) or "none"),
    ]
    rows.append(("line", words.place(c.site)))
    if c.site is not None and c.site.code:
        rows.append(("", f"> {c.site.code}"))
    if c.parent >= 0:
        rows.append(("inside", f"call {c.parent}: {trace.calls[c.parent].api}"))
    rows += [("contains", f"call {child.id}: {child.api}") for child in c.children]
    if c.error:
        rows.append(("raised", c.error))
    table(rows, indent=2)
    line("arguments", bold=True)
    table([(name, words.value(v), *_stats(trace, v)) for name, v in words.arguments(c).items()], indent=2)
    line("outputs", bold=True)
    outputs = tensors_in(c.outputs)
    table([(f"[{i}]", words.value(ref), *_stats(trace, ref)) for i, ref in enumerate(outputs)], indent=2)


def _stats(trace: Trace, item: object) -> tuple[str]:
    found = trace.stats(item) if isinstance(item, TensorRef) else None
    if found is None:
        return ("",)
    odd = f", {found.non_finite} not finite" if found.non_finite else ""
    spread = f"{words.number(found.minimum)} to {words.number(found.maximum)}"
    return (f"{spread}, mean {words.number(found.mean)}, rms {words.number(found.rms)}{odd}",)
