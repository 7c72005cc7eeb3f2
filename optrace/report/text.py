"""Words and numbers of a report: values, places, error figures; nothing hostile gets through."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from optrace.diagnose.findings import ArgumentDifference, Error, ErrorFigures, Evidence, Finding, Spread, Warn
from optrace.trace.model import Trace
from optrace.trace.records import Call, DtypeRef, Opaque, Site, TensorRef

LONGEST = 200
# Format and control characters (terminal escapes, right-to-left marks), lone surrogates, private use.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")

KINDS = {
    "argument": "an argument differs",
    "value": "the same call gives another result",
    "missing_op": "a call is missing",
    "extra_op": "a call too many",
    "order": "calls stand in another order",
    "layout": "another axis or layout",
    "dtype": "another dtype",
    "weight": "a weight differs",
    "input": "an input differs",
    "random": "a random draw differs",
}


def clean(text: object, longest: int = LONGEST) -> str:
    """``text`` on one line, with characters that a terminal or a reader would act on spelled out."""
    start = str(text)[: longest + 1]
    shown = "".join(_spelled(c) if unicodedata.category(c) in _HIDDEN else c for c in start)
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A figure as short as it stays clear: ``0``, ``12``, ``0.25``, ``3.1e-05``, ``inf``."""
    if not math.isfinite(value) or value == 0 or (value == int(value) and abs(value) < 1e5):
        return f"{value:g}"
    return f"{value:.2g}" if 1e-3 <= abs(value) < 1e3 else f"{value:.1e}"


def value(item: Any) -> str:
    """An argument as a person would write it; tensors by dtype and shape."""
    if isinstance(item, TensorRef):
        name = f" {item.path}" if item.path else ""
        return f"{item.dtype}[{', '.join(map(str, item.shape))}]{name}"
    if isinstance(item, DtypeRef):
        return item.name
    if isinstance(item, Opaque):
        return item.text or f"<{item.type_name}>"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{k!r}: {value(v)}" for k, v in item.items()) + "}"
    if isinstance(item, (list, tuple)):
        inner = ", ".join(map(value, item))
        return f"[{inner}]" if isinstance(item, list) else f"({inner}{',' if len(item) == 1 else ''})"
    return repr(item)


def path(file: str) -> str:
    """A file as seen from here: below the working folder, or within its installed package."""
    short, found = _INSTALLED.subn("", file)
    if found:
        return short
    below = os.path.relpath(file) if os.path.isabs(file) else file
    return file if below.startswith("..") else below


def place(site: Site | None) -> str:
    return f"{path(site.file)}:{site.line} in {site.function}" if site is not None else "unknown line"


def module(call: Call) -> str:
    """The module that made the call: ``encoder.0.norm (LayerNorm)``."""
    if call.module is None:
        return ""
    kind = f" ({call.module_type})" if call.module_type else ""
    return f"{call.module or 'the model itself'}{kind}"


def arguments(call: Call) -> dict[str, Any]:
    """The call's arguments by name; by position where its parameters are not known."""
    try:
        return call.args
    except Exception:  # unknown to the op table, or a damaged trace: shown as written
        return {**{f"[{i}]": v for i, v in enumerate(call.positional)}, **call.keyword}


def signature(call: Call) -> str:
    """The call as one line of code."""
    return f"{call.api}({', '.join(f'{k}={value(v)}' for k, v in arguments(call).items())})"


def side_of(difference: ArgumentDifference, side: str) -> str:
    """``epsilon = 1e-05`` for one side of a differing argument."""
    name, found = (
        (difference.base_name, difference.base_value)
        if side == "base"
        else (difference.raw_name, difference.raw_value)
    )
    return f"{name or difference.name} = {value(found)}"


def figures(found: ErrorFigures) -> str:
    """One line of error figures; those that are not known (NaN) are left out where others are."""
    known = [
        (f"max {number(found.max_abs)}", found.max_abs),
        (f"max relative {number(found.max_rel)}", found.max_rel),
        (f"relative L2 {number(found.rel_l2)}", found.rel_l2),
        (f"{number(found.ulp)} ulp", found.ulp),
    ]
    parts = [shown for shown, figure in known if not math.isnan(figure)] or [shown for shown, _ in known]
    return ", ".join(parts)


def errors(error: Error) -> list[tuple[str, str]]:
    """Label (with its note) and figures of the errors that are known."""
    known = (("given equal inputs", error.local), ("as the runs showed", error.observed))
    return [
        (f"{label} ({found.note})" if found.note else label, figures(found))
        for label, found in known
        if found is not None
    ]


def reach(spread: Spread) -> str:
    end = "reaches the output" if spread.reaches_output else "does not reach the output"
    return f"{counted(spread.calls, 'later call')} affected; {end}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def headline(finding: Finding) -> str:
    """What is wrong, where: ``argument epsilon of paddle.nn.functional.layer_norm``."""
    lost = finding.kind == "missing_op" and finding.base is not None
    call = finding.base if lost else finding.raw or finding.base
    api = call.api if call is not None else "the model"
    if finding.kind == "weight" and finding.parameter:
        return f"weight {finding.parameter} used by {api}"
    if finding.kind == "argument" and finding.argument:
        return f"argument {_own_name(finding)} of {api}"
    return f"{KINDS[finding.kind]}: {api}"


def _own_name(finding: Finding) -> str:
    """The differing argument as the side whose call is named calls it."""
    for difference in finding.differences:
        if finding.argument in (difference.base_name, difference.raw_name):
            own = difference.raw_name if finding.raw is not None else difference.base_name
            return own or difference.name
    return finding.argument or "?"


def verdict(findings: list[Finding], evidence: Evidence) -> str:
    """The first line of a report."""
    if findings:
        return f"NOT ALIGNED: {counted(len(findings), 'cause')} found"
    if evidence.beyond:
        return f"ALIGNED in all that could be compared ({counted(evidence.beyond, 'call')} could not)"
    return "ALIGNED: no difference found"


def evidence_lines(evidence: Evidence) -> list[str]:
    """What the verdict rests on."""
    lines = [
        f"{counted(evidence.raw_calls, 'call')} of raw: {evidence.compared:,} compared one to one, "
        f"{evidence.grouped:,} inside groups, {evidence.unmatched_raw:,} without counterpart, "
        f"{evidence.beyond:,} beyond comparison",
        f"{counted(evidence.base_calls, 'call')} of base: {evidence.unmatched_base:,} without counterpart",
    ]
    lines += [f"beyond comparison, {count:,}: {why}" for why, count in evidence.beyond_reasons.items()]
    return lines


def unseen(trace: Trace) -> list[str]:
    """What a run did that its trace does not hold: compiled regions, and errors inside the tracer."""
    lines = [
        f"not traced, runs without being seen: {name} ({counted(count, 'time')})"
        for name, count in (trace.meta.get("opaque") or {}).items()
    ]
    lines += [
        f"not recorded, an error in optrace: {text} ({counted(n, 'time')})"
        for text, n in trace.errors.items()
    ]
    if trace.meta.get("incomplete"):
        lines.append(f"incomplete: {trace.meta['incomplete']}")
    return lines


def grouped(warnings: Iterable[Warn]) -> list[tuple[Warn, int]]:
    """Warnings that say the same, once each, with how often."""
    found: dict[str, tuple[Warn, int]] = {}
    for warning in warnings:
        first, count = found.get(warning.message, (warning, 0))
        found[warning.message] = (first, count + 1)
    return list(found.values())


def versions(meta: dict[str, Any]) -> str:
    """``torch 2.13.0, paddle 3.3.1``."""
    known = meta.get("versions") or {}
    return ", ".join(f"{name} {version}" for name, version in known.items()) or "unknown versions"
