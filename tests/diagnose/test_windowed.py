"""Long runs are compared in pieces, with the verdict that the whole would get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import optrace
from optrace.diagnose import windowed
from optrace.diagnose.windowed import WindowedComparison
from optrace.trace import stream
from optrace.trace.model import Trace
from optrace.trace.stream import Stream

STEPS, LAYERS = 60, 5
WEIGHTS = [np.random.RandomState(i).randn(6, 6).astype("float32") / 2 for i in range(LAYERS)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(windowed, "WINDOW", 150)
    monkeypatch.setattr(windowed, "MARGIN", 20)
    monkeypatch.setattr(stream, "AHEAD", 30)
    yield


def batches() -> list[np.ndarray]:
    rng = np.random.RandomState(0)
    return [rng.randn(3, 6).astype("float32") for _ in range(STEPS)]


def torch_run(out: Path | None = None) -> Trace:
    weights = [torch.tensor(w) for w in WEIGHTS]
    with optrace.trace(level="stats", out=out, frameworks=["torch"]) as trace:
        for batch in batches():
            x = torch.tensor(batch)
            for w in weights:
                x = torch.nn.functional.linear(x, w)
                x = torch.nn.functional.gelu(x)
    return trace


def paddle_run(wrong_at: int | None = None, out: Path | None = None, carry: bool = False) -> Trace:
    """The like in paddle, linear as two calls; at step ``wrong_at`` another form of gelu, in one layer.

    ``carry``: what a wrong call made goes into all later steps.
    """
    import paddle

    weights = [paddle.to_tensor(w.T.copy()) for w in WEIGHTS]
    lost = paddle.zeros([3, 6])
    with optrace.trace(level="stats", out=out, frameworks=["paddle"]) as trace:
        for step, batch in enumerate(batches()):
            x = paddle.to_tensor(batch)
            for layer, w in enumerate(weights):
                x = paddle.matmul(x, w)
                if carry and lost is not None and step > (wrong_at or 0):
                    x = x + lost
                wrong = step == wrong_at and layer == 2
                x = paddle.nn.functional.gelu(x, approximate=wrong)
                if wrong:
                    lost = x
    return trace


def compared(base: Trace | Path, raw: Trace | Path) -> WindowedComparison:
    comparison = WindowedComparison(Stream(base), Stream(raw))
    comparison.run()
    return comparison


def test_a_right_port_is_aligned_and_every_call_counted_once() -> None:
    base, raw = torch_run(), paddle_run()
    found = compared(base, raw)
    assert found.findings == []
    whole = optrace.diff(base, raw).evidence
    assert found.evidence == whole
    assert whole.raw_calls == STEPS * (1 + 2 * LAYERS)


@pytest.mark.parametrize("step", [0, 7, 31, STEPS - 1])
def test_one_wrong_call_is_named_wherever_it_stands(step: int) -> None:
    found = compared(torch_run(), paddle_run(step))
    (finding,) = found.findings
    assert finding.raw is not None
    assert finding.raw.api == "paddle.nn.functional.gelu"
    assert finding.argument == "approximate"
    assert [c.api for c in (finding.base, finding.raw) if c] == [
        "torch.nn.functional.gelu",
        "paddle.nn.functional.gelu",
    ]
    # Two more layers of matmul and gelu follow in that step.
    assert finding.spread.calls == 4


def test_what_goes_wrong_later_because_of_it_is_not_blamed() -> None:
    found = compared(torch_run(), paddle_run(9, carry=True))
    assert [f.raw.api for f in found.findings if f.raw] == ["paddle.nn.functional.gelu"]
    spread = found.findings[0].spread
    assert spread.reaches_output
    assert spread.calls > (STEPS - 10) * LAYERS * 2


def test_saved_traces_need_few_calls_in_memory(tmp_path: Path) -> None:
    torch_run(tmp_path / "base")
    paddle_run(31, tmp_path / "raw")
    sides = Stream(tmp_path / "base"), Stream(tmp_path / "raw")
    most = 0
    for side in sides:
        waiting = side.waiting

        def watched(count: int, waiting=waiting, side=side):  # type: ignore[no-untyped-def]
            nonlocal most
            found = waiting(count)
            most = max(most, len(side.trace.calls))
            return found

        side.waiting = watched  # type: ignore[method-assign]
    comparison = WindowedComparison(*sides)
    comparison.run()
    assert [f.argument for f in comparison.findings] == ["approximate"]
    assert most <= 150 + 20 + 30
    assert comparison.evidence.raw_calls > 3 * most


def test_diff_of_long_saved_traces_goes_that_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_run(tmp_path / "base")
    paddle_run(31, tmp_path / "raw")
    whole = optrace.diff(tmp_path / "base", tmp_path / "raw")
    monkeypatch.setattr(stream, "LONG", 1000)
    pieces = optrace.diff(tmp_path / "base", tmp_path / "raw")
    assert [f.message for f in pieces.findings] == [f.message for f in whole.findings]
    assert pieces.evidence == whole.evidence
    assert "gelu" in str(pieces)


def test_a_run_that_goes_on_alone_comes_to_an_end() -> None:
    base = torch_run()
    shorter = Trace("stats")
    shorter.meta, shorter.fingerprints, shorter.calls = (
        base.meta,
        base.fingerprints,
        base.calls[: len(base) // 3],
    )
    assert compared(shorter, paddle_run()).evidence.unmatched_raw > 100
    assert compared(paddle_run(), shorter).findings != []
