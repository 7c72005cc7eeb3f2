"""Long work tells how far it is; a pipe gets no bar."""

from __future__ import annotations

import numpy as np
import torch

import optrace
from optrace.progress import shown_by, tell


def two_runs() -> list[optrace.Trace]:
    found = []
    for _ in range(2):
        with optrace.trace(level="full", frameworks=["torch"]) as trace:
            x = torch.tensor(np.random.RandomState(0).randn(3, 3).astype("float32"))
            for _ in range(70):
                x = torch.tanh(x) + 0.25
        found.append(trace)
    return found


def test_a_comparison_tells_its_calls() -> None:
    told: list[tuple[int, int, str]] = []
    traces = two_runs()
    with shown_by(lambda *step: told.append(step)):
        optrace.diff(*traces)
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][0] > 100
    assert {total for _, total, _ in told} == {told[-1][1]}
    tell(1, 1, "nobody listens here")
    assert told[-1][2] == "comparing calls"
