"""The outcome of a comparison, as users hold it in their hands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optrace.diagnose.findings import Evidence, Finding, Warn

if TYPE_CHECKING:
    from optrace.layers.report import LayerReport
    from optrace.trace.model import Trace


class Report:
    """Verdict, findings (most upstream first), warnings, random calls, alignment and evidence.

    ``bool(report)`` is true when the two sides are aligned. ``layers`` is the comparison layer by layer,
    where one was asked for.
    """

    def __init__(
        self,
        base: Trace,
        raw: Trace,
        findings: list[Finding],
        warnings: list[Warn],
        evidence: Evidence,
        alignment: Any = None,
        random_ops: list[Any] | None = None,
    ) -> None:
        self.base = base
        self.raw = raw
        self.findings = findings
        self.warnings = warnings
        self.evidence = evidence
        self.alignment = alignment
        self.random_ops = random_ops or []
        self.layers: LayerReport | None = None

    def __bool__(self) -> bool:
        return not self.findings

    @property
    def first(self) -> Finding | None:
        return self.findings[0] if self.findings else None

    def __str__(self) -> str:
        from optrace.report.terminal import render

        text = render(self, color=False)
        return text if self.layers is None or self.layers else f"{text}\n\nLayers\n{self.layers}"

    def to_json(self, path: str | Path) -> None:
        """Write the report as JSON (schema in ``docs/report-json.md``)."""
        from optrace.report.jsonfile import write

        write(self, Path(path))

    def to_sarif(self, path: str | Path) -> None:
        """Write the findings as SARIF 2.1.0, which code hosts show on the lines of a change."""
        from optrace.report.sarif import write

        write(self, Path(path))

    def _repr_html_(self) -> str:
        """The report in a notebook: the page of ``to_html`` in a frame of its own."""
        from optrace.report.notebook import framed

        return framed(self)

    def to_html(self, path: str | Path) -> None:
        """Write the report as one self-contained HTML file."""
        from optrace.report.html import write

        write(self, Path(path))
