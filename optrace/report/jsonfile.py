"""The report as JSON. ``docs/report-json.md`` documents the form; ``VERSION`` goes up when it changes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from optrace.diagnose.findings import ErrorFigures, Finding, Warn
from optrace.errors import OptraceError
from optrace.report import text as words
from optrace.trace.model import Trace
from optrace.trace.records import Call, DtypeRef, Opaque, TensorRef, tensors_in
from optrace.version import __version__

if TYPE_CHECKING:
    from optrace.report.model import Report

SCHEMA = "optrace-report"
VERSION = 1


def as_dict(report: Report) -> dict[str, Any]:
    """The report in plain values: no NaN, no infinity, nothing but what JSON has."""
    evidence = msgspec.structs.asdict(report.evidence)
    return plain(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "optrace": __version__,
            "aligned": bool(report),
            "verdict": words.verdict(report.findings, report.evidence),
            "base": _side(report.base),
            "raw": _side(report.raw),
            "findings": [_finding(f) for f in report.findings],
            "warnings": [_warning(w) for w in report.warnings],
            "random_ops": [_random(op) for op in report.random_ops],
            "evidence": evidence,
        }
    )


def write(report: Report, path: Path) -> None:
    """Write the report to ``path``. Raises ``OptraceError`` when that can't be done."""
    body = json.dumps(as_dict(report), indent=1, allow_nan=False)
    save(path, body + "\n")


def save(path: Path, body: str) -> None:
    """Write a report's text, making the folder it goes to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Names from a damaged trace may hold lone surrogates, which no file can.
        path.write_text(body, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise OptraceError(f"the report can't be written to {path}: {error.strerror or error}") from error


def plain(item: Any) -> Any:
    """``item`` with tensors, dtypes and objects as small dicts, and non-finite numbers as text."""
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if isinstance(item, float):
        return item if math.isfinite(item) else str(item)
    if isinstance(item, TensorRef):
        return {"tensor": item.dtype, "shape": list(item.shape), "path": item.path}
    if isinstance(item, DtypeRef):
        return {"dtype": item.name}
    if isinstance(item, Opaque):
        return {"object": item.type_name, "text": item.text}
    if isinstance(item, dict):
        return {str(key): plain(found) for key, found in item.items()}
    if isinstance(item, (list, tuple, set, frozenset)):
        return [plain(found) for found in item]
    return {"object": type(item).__name__, "text": str(item)}


def _side(trace: Trace) -> dict[str, Any]:
    meta = trace.meta
    return {
        "frameworks": dict(meta.get("versions") or {}),
        "python": meta.get("python"),
        "created": meta.get("created"),
        "argv": list(meta.get("argv") or ()),
        "level": trace.level,
        "calls": len(trace.calls),
        "tracer_errors": dict(trace.errors),
        "not_traced": dict(meta.get("opaque") or {}),
        "ended": meta.get("ended"),
        "ended_at": meta.get("ended_at"),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "stage": finding.stage,
        "step": finding.step,
        "occurrences": finding.occurrences,
        "message": finding.message,
        "argument": finding.argument,
        "parameter": finding.parameter,
        "base": _call(finding.base),
        "raw": _call(finding.raw),
        "differences": [msgspec.structs.asdict(d) for d in finding.differences],
        "error": {
            "local": _figures(finding.error.local),
            "observed": _figures(finding.error.observed),
        },
        "spread": msgspec.structs.asdict(finding.spread),
        "suggestion": finding.suggestion,
    }


def _warning(warning: Warn) -> dict[str, Any]:
    return {
        "message": warning.message,
        "argument": warning.argument,
        "base": _call(warning.base),
        "raw": _call(warning.raw),
    }


def _random(op: Any) -> dict[str, Any]:
    names = ("framework", "api", "module", "effective", "p", "seeded")
    site = op.site
    return {
        **{name: getattr(op, name) for name in names},
        "site": {"file": site.file, "line": site.line} if site else None,
    }


def _figures(found: ErrorFigures | None) -> dict[str, Any] | None:
    return msgspec.structs.asdict(found) if found is not None else None


def _call(call: Call | None) -> dict[str, Any] | None:
    if call is None:
        return None
    site = call.site
    return {
        "id": call.id,
        "api": call.api,
        "framework": call.framework,
        "module": call.module,
        "module_type": call.module_type,
        "phase": call.phase,
        "step": call.step,
        "site": {"file": site.file, "line": site.line, "function": site.function, "code": site.code}
        if site is not None
        else None,
        "arguments": words.arguments(call),
        "outputs": tensors_in(call.outputs),
    }
