"""Reports made by hand: no framework needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import chain, linked, trace_of

from optrace.diagnose.findings import (
    ArgumentDifference,
    Error,
    ErrorFigures,
    Evidence,
    Finding,
    Spread,
    Warn,
)
from optrace.report.model import Report
from optrace.trace.model import Trace
from optrace.trace.records import Site, TensorRef

SOURCE = """def forward(self, x):
    x = self.linear(x)
    return self.norm(x)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return Site(str(path), 3, "Block.forward")


@pytest.fixture
def sides(site: Site) -> tuple[Trace, Trace]:
    base = trace_of("torch", "torch.nn.functional.layer_norm", site, normalized_shape=[3], eps=1e-5)
    raw = trace_of("paddle", "paddle.nn.functional.layer_norm", site, normalized_shape=[3], epsilon=1e-6)
    return base, raw


@pytest.fixture
def bad(sides: tuple[Trace, Trace]) -> Report:
    """An epsilon that differs, a missing call, two warnings that say the same."""
    base, raw = sides
    figures = ErrorFigures(0.25, float("inf"), 3.1e-5, 1234.0)
    epsilon = Finding(
        "argument",
        "epsilon is 1e-06, base has eps 1e-05",
        base=base.calls[0],
        raw=raw.calls[0],
        argument="epsilon",
        error=Error(local=figures, observed=ErrorFigures(float("nan"), 0.5, 0.1, 9.0, "one NaN")),
        differences=(ArgumentDifference("eps", "epsilon", 1e-5, 1e-6),),
        suggestion="pass epsilon=1e-05",
        spread=Spread(12, True),
        occurrences=3,
    )
    missing = Finding("missing_op", "base calls relu here", stage="loss", base=base.calls[0], step=2)
    warnings = [Warn("scale written otherwise", raw=raw.calls[0])] * 2
    evidence = Evidence(10, 4, 1, 2, 3, {"sparse": 3}, 18, 19)
    return Report(base, raw, [epsilon, missing], warnings, evidence)


@pytest.fixture
def good(sides: tuple[Trace, Trace]) -> Report:
    return Report(*sides, [], [], Evidence(compared=1, base_calls=1, raw_calls=1))


HOSTILE = "</pre><script>alert(1)</script>\x1b[2J\x07\u202e{{ 7*7 }}[bold]\r\n" + "long" * 500


@pytest.fixture
def hostile(site: Site) -> Report:
    """Every text that can come from a user's program is hostile."""
    Path(site.file).write_text(f"\n\nx = 1  # {HOSTILE}")
    named = Site(site.file, 3, HOSTILE)
    base = trace_of("torch", f"torch.{HOSTILE}", named, **{HOSTILE: HOSTILE})
    raw = trace_of("paddle", f"paddle.{HOSTILE}", named, **{HOSTILE: float("nan")})
    for trace in (base, raw):
        trace.meta["versions"] = {HOSTILE: HOSTILE}
        trace.calls[0].module = trace.calls[0].module_type = HOSTILE
    finding = Finding(
        "argument",
        HOSTILE,
        base=base.calls[0],
        raw=raw.calls[0],
        argument=HOSTILE,
        differences=(ArgumentDifference(HOSTILE, HOSTILE, HOSTILE, float("nan"), HOSTILE),),
        error=Error(ErrorFigures(0.0, 0.0, 0.0, 0.0, HOSTILE)),
        suggestion=HOSTILE,
    )
    evidence = Evidence(beyond=1, beyond_reasons={HOSTILE: 1})
    for trace in (base, raw):
        trace.calls[0].outputs = TensorRef(2, 0, (2, 3), "float32")
    report = Report(base, raw, [finding], [Warn(HOSTILE, base.calls[0])], evidence)
    return linked(report, {0: 0})


@pytest.fixture
def side_by_side(site: Site) -> Report:
    """Four calls of raw: the second in a group, the last with no counterpart; base has one of its own."""
    base = chain("torch", ["torch.a", "torch.only", "torch.c"], site)
    raw = chain("paddle", ["paddle.a", "paddle.grouped", "paddle.c", "paddle.more"], site)
    return linked(Report(base, raw, [], [], Evidence()), {0: 0, 2: 2})
