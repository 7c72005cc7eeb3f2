"""What a comparison of layers found, and how it is shown: both trees with the places marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from optrace.align.values import Difference
from optrace.diagnose.findings import Error, ErrorFigures, Finding
from optrace.layers.records import LayerCall, LayerRun
from optrace.trace.model import Trace
from optrace.trace.records import Call

Stage = Literal["forward", "backward", "weight", "gradient"]


@dataclass
class LayerFinding:
    """One layer (or one parameter of it) in which the two models differ.

    ``open`` compares the ops inside the layer on base's inputs and returns what it finds, each with its API,
    argument and source lines; it needs the models, so it is empty for dumped runs.
    """

    stage: Stage
    base: LayerCall
    raw: LayerCall
    message: str
    error: Difference
    parameter: str | None = None
    opener: Callable[[], list[Finding]] | None = None

    def open(self) -> list[Finding]:
        """The findings among the ops inside this layer; raises what running the layer raises."""
        return self.opener() if self.opener is not None else []

    def as_finding(self, base: Trace, raw: Trace) -> Finding:
        """The same as a finding of calls: the last call made inside the layer stands for it."""
        figures = ErrorFigures(*self.error[:4], self.error.note)
        return Finding(
            "weight" if self.stage == "weight" else "value",
            f"layer {self.raw.name or self.raw.kind}: {self.message}",
            "forward" if self.stage in ("forward", "weight") else "backward",
            base=_last_call(base, self.base.name),
            raw=_last_call(raw, self.raw.name),
            parameter=self.parameter,
            error=Error(observed=figures),
        )


@dataclass
class LayerReport:
    """True when no layer differs. ``pairs`` are the layers that were compared, in base's order."""

    base: LayerRun
    raw: LayerRun
    pairs: list[tuple[LayerCall, LayerCall]]
    findings: list[LayerFinding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.findings

    @property
    def first(self) -> LayerFinding | None:
        return self.findings[0] if self.findings else None

    @property
    def skipped(self) -> tuple[list[str], list[str]]:
        """Names of the layers that ran without a counterpart, on each side."""
        paired = {id(c) for p in self.pairs for c in p}
        return tuple(  # type: ignore[return-value]
            list(dict.fromkeys(c.name for c in run.walk() if id(c) not in paired))
            for run in (self.base, self.raw)
        )

    def __str__(self) -> str:
        n = len(self.findings)
        lines = [
            "ALIGNED layer by layer"
            if not n
            else f"NOT ALIGNED: {n} layer{'s differ' if n > 1 else ' differs'}",
            f"{len(self.pairs)} pairs of layers compared, without counterpart: "
            f"{len(self.skipped[0])} of base, {len(self.skipped[1])} of raw",
        ]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding.stage}: {_named(finding.base)}  vs  {_named(finding.raw)}"]
            lines.append(f"   {finding.message}")
        if n:
            paired = {id(c) for p in self.pairs for c in p}
            for title, run, side in (("base", self.base, "base"), ("raw", self.raw, "raw")):
                marked = {id(getattr(f, side)) for f in self.findings}
                lines += ["", f"{title}: {run.model} ({run.framework})"]
                lines += [line for root in run.roots for line in draw(root, marked, paired)]
        return "\n".join(lines)


def _last_call(trace: Trace, layer: str) -> Call | None:
    inside = (
        c for c in reversed(trace.calls) if c.module == layer or (c.module or "").startswith(f"{layer}.")
    )
    return next(inside, None) if layer else next(reversed(trace.calls), None)


def _named(call: LayerCall) -> str:
    return f"{call.name or 'the model'} ({call.kind})"


def draw(call: LayerCall, marked: set[int], paired: set[int], prefix: str = "  ") -> Iterator[str]:
    """The tree of what ran; ``(skip)`` on layers without counterpart, ``<---`` where they differ."""
    text = f"{call.name.rpartition('.')[2]}: {call.kind}" if call.name else call.kind
    if os.environ.get("PADIFF_PATH_LOG") == "ON" and call.name:
        text += f"  ({call.name})"
    text += "" if id(call) in paired else "  (skip)"
    text += "    <---  here" if id(call) in marked else ""
    yield prefix + text
    stem = prefix.replace("|-- ", "|   ").replace("+-- ", "    ")
    for k, child in enumerate(call.children):
        yield from draw(child, marked, paired, stem + ("+-- " if k == len(call.children) - 1 else "|-- "))
