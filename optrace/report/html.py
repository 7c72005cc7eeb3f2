"""The report as one self-contained HTML file: no network, no script needed to read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from optrace.report import excerpt
from optrace.report import text as words
from optrace.report.jsonfile import save
from optrace.version import __version__

if TYPE_CHECKING:
    from optrace.report.model import Report


def render(report: Report) -> str:
    """The page. Everything from the traces is escaped by the template engine."""
    environment = Environment(
        loader=PackageLoader("optrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = words.clean
    page = environment.get_template("report.html.j2")
    return page.render(report=report, words=words, excerpt=excerpt, version=__version__)


def write(report: Report, path: Path) -> None:
    """Write the page. Raises ``OptraceError`` when that can't be done."""
    save(path, render(report))
