"""The report as one self-contained HTML file: no network, no script needed to read the findings."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from optrace.report import excerpt, rows
from optrace.report import text as words
from optrace.report.along import along
from optrace.report.jsonfile import save
from optrace.report.pictures import picture
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
    found = rows.facing(report)
    # The page allows this one script, by its hash, and nothing from anywhere else.
    script = resources.files("optrace.report").joinpath("templates/report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.j2").render(
        report=report,
        words=words,
        excerpt=excerpt,
        calls={**rows.packed(found), "errors": along(report, found)},
        picture=picture,
        script=Markup(script),
        script_hash=digest,
        version=__version__,
    )


def write(report: Report, path: Path) -> None:
    """Write the page. Raises ``OptraceError`` when that can't be done."""
    save(path, render(report))
