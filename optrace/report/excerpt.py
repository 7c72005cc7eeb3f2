"""What stands around a call: lines of its source, its arguments beside the other side's."""

from __future__ import annotations

import linecache
from typing import NamedTuple

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
    lines = []
    for number in range(max(site.line - AROUND, 1), site.line + AROUND + 1):
        code = linecache.getline(site.file, number).rstrip("\n")
        if code or number <= site.line:
            lines.append(Line(number, words.clean(code.expandtabs(4)), number == site.line))
    return lines


def arguments(finding: Finding) -> list[ArgumentRow]:
    """The arguments of both calls, those that mean the same beside each other."""
    base = words.arguments(finding.base) if finding.base else {}
    raw = words.arguments(finding.raw) if finding.raw else {}
    partner = _partners(finding.base, finding.raw)
    partner.update((d.base_name, d.raw_name) for d in finding.differences if d.base_name and d.raw_name)
    differing_base = {d.base_name for d in finding.differences}
    differing_raw = {d.raw_name for d in finding.differences}
    rows, seen = [], set()
    for name, found in base.items():
        other = partner.get(name, name)
        present = other in raw
        seen.add(other)
        rows.append(
            ArgumentRow(
                words.clean(name),
                words.clean(words.value(found)),
                words.clean(other) if present else "",
                words.clean(words.value(raw[other])) if present else "",
                name in differing_base or (present and other in differing_raw),
            )
        )
    for name, found in raw.items():
        if name not in seen:
            shown = words.clean(words.value(found))
            rows.append(ArgumentRow("", "", words.clean(name), shown, name in differing_raw))
    return rows


def _partners(base: Call | None, raw: Call | None) -> dict[str, str]:
    """Raw's parameter names by base's, from the op table."""
    row = ops.lookup(base.api) if base is not None and raw is not None else None
    if row is None or base is None or raw is None or base.framework == raw.framework:
        return {}
    return dict(row.args) if base.framework == "torch" else {p: t for t, p in row.args.items()}
