"""Findings as SARIF 2.1.0, the form in which code hosts show results on the lines of a change.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from optrace.diagnose.findings import Finding, Warn
from optrace.report import text as words
from optrace.report.jsonfile import save
from optrace.trace.records import Call
from optrace.version import __version__

if TYPE_CHECKING:
    from optrace.report.model import Report

_WARNED = "code-difference"
_LONGEST = 2000


def as_dict(report: Report) -> dict[str, Any]:
    """The SARIF log: each finding an error on raw's line, each warning a note, base's line as related."""
    rules = {**words.KINDS, _WARNED: "code that differs without effect in this run"}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "optrace",
                        "version": __version__,
                        "rules": [_rule(name, what) for name, what in rules.items()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}},
                "results": [*map(_finding, report.findings), *map(_warning, report.warnings)],
            }
        ],
    }


def write(report: Report, path: Path) -> None:
    """Write the log to ``path``. Raises ``OptraceError`` when that can't be done."""
    save(path, json.dumps(as_dict(report), indent=1, allow_nan=False) + "\n")


def _rule(name: str, what: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": {"text": what}}


def _finding(finding: Finding) -> dict[str, Any]:
    lines = [f"{words.headline(finding)}: {finding.message}"]
    lines += [f"{label}: {figures}" for label, figures in words.errors(finding.error)]
    if finding.suggestion:
        lines.append(f"Try: {finding.suggestion}")
    return _result(finding.kind, "error", lines, finding.raw, finding.base, finding.argument)


def _warning(warning: Warn) -> dict[str, Any]:
    return _result(_WARNED, "note", [warning.message], warning.raw, warning.base, warning.argument)


def _result(
    rule: str, level: str, lines: list[str], raw: Call | None, base: Call | None, argument: str | None
) -> dict[str, Any]:
    mine, theirs = _location(raw), _location(base)
    found: dict[str, Any] = {
        "ruleId": rule,
        "level": level,
        "message": {"text": ". ".join(words.clean(line, _LONGEST) for line in lines)},
        # A call that is missing has no line on raw's side.
        "locations": [place for place in (mine or theirs,) if place],
        "partialFingerprints": {"optrace/v1": _mark(rule, raw or base, argument)},
    }
    if mine and theirs:
        found["relatedLocations"] = [{"id": 1, "message": {"text": _said(base)}, **theirs}]
    return found


def _said(base: Call | None) -> str:
    return f"base: {words.clean(base.api)}" if base is not None else "base"


def _location(call: Call | None) -> dict[str, Any] | None:
    if call is None or call.site is None:
        return None
    site = call.site
    region: dict[str, Any] = {"startLine": max(site.line, 1)}
    if site.code:
        region["snippet"] = {"text": words.clean(site.code)}
    return {"physicalLocation": {"artifactLocation": _artifact(site.file), "region": region}}


def _artifact(file: str) -> dict[str, str]:
    """A file below the working folder relative to it, as code hosts want it; others by their whole path."""
    below = os.path.relpath(file) if os.path.isabs(file) else file
    if below.startswith(".."):
        return {"uri": "file://" + _quoted(os.path.abspath(file))}
    return {"uri": _quoted(below), "uriBaseId": "SRCROOT"}


def _quoted(path: str) -> str:
    return quote(path.replace(os.sep, "/").encode("utf-8", "backslashreplace"))


def _mark(rule: str, call: Call | None, argument: str | None) -> str:
    """The same for the same mistake on a line that has moved."""
    known = (rule, argument, call and call.api, call and call.site and call.site.code)
    return hashlib.sha256(repr(known).encode("utf-8", "backslashreplace")).hexdigest()[:32]
