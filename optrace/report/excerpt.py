"""What stands around a call: lines of its source, its arguments beside the other side's."""

from __future__ import annotations

import linecache
from typing import Any, NamedTuple

from optrace import ops
from optrace.diagnose.findings import Finding
from optrace.report import text as words
from optrace.trace.records import Call, Site

AROUND = 3


class Line(NamedTuple):
    number: int
    code: str
    marked: bool


class ArgumentRow(NamedTuple):
    base_name: str
    base_value: str
    raw_name: str
    raw_value: str
    differs: bool


def source(site: Site | None) -> list[Line]:
    """The call's line and those around it; empty when the file can't be read."""
    if site is None or not site.code:
        return []
    every = linecache.getlines(site.file)
    numbers = range(max(site.line - AROUND, 1), min(site.line + AROUND, len(every)) + 1)
    return [Line(n, words.clean(every[n - 1].rstrip("\n").expandtabs(4)), n == site.line) for n in numbers]


def arguments(finding: Finding) -> list[ArgumentRow]:
    """The arguments of both calls, those that mean the same beside each other; differing ones first."""
    base = words.arguments(finding.base) if finding.base else {}
    raw = words.arguments(finding.raw) if finding.raw else {}
    rows = []
    for d in finding.differences:
        rows.append(
            _row(
                d.base_name,
                _shown(base, d.base_name, d.base_value),
                d.raw_name,
                _shown(raw, d.raw_name, d.raw_value),
                True,
            )
        )
        base.pop(d.base_name or "", None)
        raw.pop(d.raw_name or "", None)
    partner = _partners(finding.base, finding.raw)
    for name, found in base.items():
        other = partner.get(name, name)
        if other in raw:
            rows.append(_row(name, words.value(found), other, words.value(raw.pop(other))))
        else:
            rows.append(_row(name, words.value(found), None, ""))
    rows += [_row(None, "", name, words.value(found)) for name, found in raw.items()]
    return rows


def _shown(written: dict[str, Any], name: str | None, value: Any) -> str:
    if name is None:
        return ""
    return words.value(value) if name in written else f"{words.value(value)} (default)"


def _row(
    base: str | None, base_value: str, raw: str | None, raw_value: str, differs: bool = False
) -> ArgumentRow:
    clean = words.clean
    return ArgumentRow(clean(base or ""), clean(base_value), clean(raw or ""), clean(raw_value), differs)


def _partners(base: Call | None, raw: Call | None) -> dict[str, str]:
    """Raw's parameter names by base's, from the op table."""
    row = ops.lookup(base.api) if base is not None and raw is not None else None
    if row is None or base is None or raw is None or base.framework == raw.framework:
        return {}
    return dict(row.args) if base.framework == "torch" else {p: t for t, p in row.args.items()}
