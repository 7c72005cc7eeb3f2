"""A report as notebooks show it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from optrace.report import text as words
from optrace.report.html import render

if TYPE_CHECKING:
    from optrace.report.model import Report


def framed(report: Report) -> str:
    """The whole page in a frame, so that its style and script are no business of the notebook's."""
    page, title = html.escape(render(report)), html.escape(words.verdict(report.findings, report.evidence))
    height = 420 if report else 720
    style = f"width:100%;height:{height}px;border:1px solid #8886;border-radius:6px"
    return f'<iframe sandbox="allow-scripts" title="{title}" style="{style}" srcdoc="{page}"></iframe>'
