"""A trace as a table of its calls, for notebooks."""

from __future__ import annotations

import html
from itertools import islice
from typing import TYPE_CHECKING

from optrace.trace.records import tensors_in

if TYPE_CHECKING:
    from optrace.trace.model import Trace

# Calls that are shown, and characters of a cell.
_SHOWN, _LONGEST = 200, 120


def as_html(trace: Trace) -> str:
    """The first calls, those made inside others indented."""
    depth: dict[int, int] = {}
    rows = []
    for call in islice(trace.calls, _SHOWN):
        depth[call.id] = depth.get(call.parent, -1) + 1
        made = ", ".join(f"{ref.dtype}{list(ref.shape)}" for ref in tensors_in(call.outputs))
        site = call.site
        line = "" if site is None else site.short
        indent = f' style="padding-left:{1 + depth[call.id]}em;text-align:left"'
        cells = ("", str(call.id)), (indent, call.api), ("", made), ("", call.module or ""), ("", line)
        rows.append("".join(f"<td{style}>{_safe(cell)}</td>" for style, cell in cells))
    more = len(trace.calls) - len(rows)
    versions = ", ".join(f"{name} {version}" for name, version in trace.meta.get("versions", {}).items())
    head = "".join(f"<th>{name}</th>" for name in ("", "call", "result", "module", "line"))
    return (
        f"<p>{len(trace.calls):,} calls, level {_safe(trace.level)}, {_safe(versions)}</p>"
        f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
        + (f"<p>and {more:,} more</p>" if more else "")
    )


def _safe(text: str) -> str:
    """``text`` as HTML; characters that can't be seen are spelled out, as ``repr`` does."""
    return html.escape(repr(text[:_LONGEST])[1:-1])
