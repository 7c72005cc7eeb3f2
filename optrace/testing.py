"""Keep a port aligned: an assertion and a pytest fixture.

pytest finds the fixture ``assert_aligned`` by itself once optrace is installed. Without pytest, import the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optrace.report.model import Report


def assert_aligned(
    base: Any, raw: Any, inputs: Any = None, *, html: Path | None = None, **options: Any
) -> Report:
    """Compare two models, traces or saved traces; the report is the text of the ``AssertionError``.

    With ``inputs`` (as ``optrace.auto_diff`` takes them) ``base`` and ``raw`` are models and ``options`` are
    those of ``auto_diff``; without, they are traces or paths of saved ones and ``options`` those of
    ``optrace.diff``. ``html``: where to write the report of a failure as a page. Returns the report.
    """
    __tracebackhide__ = True
    import optrace

    if inputs is None:
        report = optrace.diff(base, raw, **options)
    else:
        report = optrace.auto_diff(base, raw, inputs, **options)
    if not report:
        text = str(report)
        if html is not None:
            report.to_html(html)
            text += f"\n\nas a page: {html}"
        raise AssertionError(text)
    return report


try:
    import pytest
except ImportError:  # the function serves any test runner
    pass
else:

    def pytest_addoption(parser: pytest.Parser) -> None:
        """``--optrace-html``."""
        group = parser.getgroup("optrace")
        group.addoption(
            "--optrace-html",
            metavar="DIR",
            type=Path,
            help="write the report of each failed assert_aligned there",
        )

    @pytest.fixture(name="assert_aligned")
    def _assert_aligned(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
        """``assert_aligned(base, raw, inputs, **options)``: fails with the report when the two part."""
        folder: Path | None = request.config.getoption("--optrace-html")
        count = 0

        def check(base: Any, raw: Any, inputs: Any = None, **options: Any) -> Report:
            nonlocal count
            __tracebackhide__ = True
            count += 1
            name = "".join(c if c.isalnum() or c in "-_." else "-" for c in request.node.nodeid)
            page = folder / f"{name}-{count}.html" if folder is not None else None
            return assert_aligned(base, raw, inputs, **{"html": page, **options})

        yield check
