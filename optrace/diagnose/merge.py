"""Findings that are one and the same."""

from __future__ import annotations

from optrace.diagnose.findings import Finding


def merged(findings: list[Finding]) -> list[Finding]:
    """One finding where a line that runs several times goes wrong in the same way each time."""
    kept: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        where = (f.raw.site, f.raw.api, f.message) if f.raw is not None else (f.message,)
        first = kept.setdefault((f.kind, f.argument, f.parameter, *where), f)
        if first is not f:
            first.occurrences += 1
    return list(kept.values())
