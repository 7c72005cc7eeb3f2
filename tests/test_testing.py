"""The pytest plugin, in a test session of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from optrace.testing import assert_aligned
from optrace.trace.model import Trace

pytest_plugins = ["pytester"]

PORT = """
    import numpy as np
    import paddle
    import torch

    X = (np.random.RandomState(0).randn(2, 4).astype("float32"),)

    def test_right(assert_aligned):
        report = assert_aligned(torch.nn.Linear(4, 3), paddle.nn.Linear(4, 3), X)
        assert report.evidence.compared == 1

    def test_wrong(assert_aligned):
        assert_aligned(torch.nn.LayerNorm(4), paddle.nn.LayerNorm(4, epsilon=1e-4), X)
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    return pytester


def run(session: pytest.Pytester, *options: str) -> pytest.RunResult:
    # The entry point is there only where the package is installed.
    installed = [] if _installed() else ["-p", "optrace.testing"]
    return session.runpytest_subprocess("-p", "no:cacheprovider", *installed, *options)


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.value == "optrace.testing" for e in entry_points(group="pytest11"))


def test_a_failure_shows_the_report_and_writes_the_page(session: pytest.Pytester) -> None:
    session.makepyfile(PORT)
    result = run(session, "--optrace-html", "pages")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*NOT ALIGNED: 1 cause found*", "*argument epsilon of paddle*", "*as a page: *.html*"]
    )
    (page,) = (session.path / "pages").iterdir()
    assert "test_wrong" in page.name
    assert "NOT ALIGNED" in page.read_text(encoding="utf-8")


def test_the_plugin_loads_no_framework(session: pytest.Pytester) -> None:
    session.makepyfile("""
        import sys

        def test_nothing_loaded():
            assert not {"torch", "paddle", "numpy", "msgspec"} & set(sys.modules)
    """)
    run(session).assert_outcomes(passed=1)


def test_without_pytest_the_function_is_there(session: pytest.Pytester) -> None:
    code = "import sys; sys.modules['pytest'] = None; import optrace.testing; print(optrace.testing.assert_aligned.__name__)"
    result = session.run(sys.executable, "-c", code)
    result.stdout.fnmatch_lines(["assert_aligned"])


def test_traces_are_compared_as_they_are(small: tuple[Trace, Trace]) -> None:
    base, raw = small
    assert assert_aligned(base, raw)


@pytest.fixture
def small() -> tuple[Trace, Trace]:
    import numpy as np
    import paddle
    import torch

    import optrace

    x = np.random.RandomState(0).randn(3, 3).astype("float32")
    with optrace.trace(level="full") as base:
        torch.tanh(torch.tensor(x))
    with optrace.trace(level="full") as raw:
        paddle.tanh(paddle.to_tensor(x))
    return base, raw
