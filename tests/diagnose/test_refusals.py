"""Comparisons that can't say anything say so, and never come out as aligned."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
import torch

from optrace import frameworks
from optrace.api import auto_diff, diff
from optrace.diagnose.run import run_model
from optrace.errors import ComparisonError, InputError, ModelError


def pair() -> tuple[torch.nn.Module, paddle.nn.Layer]:
    base, raw = torch.nn.Linear(4, 3), paddle.nn.Linear(4, 3)
    raw.weight.set_value(base.weight.detach().numpy().T.copy())
    raw.bias.set_value(base.bias.detach().numpy())
    return base, raw


X = np.arange(8, dtype="float32").reshape(2, 4)


def test_a_trace_against_itself() -> None:
    trace = run_model(pair()[0], (X,))
    with pytest.raises(ComparisonError, match="same trace"):
        diff(trace, trace)


def test_an_empty_trace() -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(ComparisonError, match="no framework call"):
        diff(run_model(Nothing(), (X,)), run_model(pair()[1], (X,)))


def test_other_inputs() -> None:
    base, raw = pair()
    with pytest.raises(ComparisonError, match="different inputs"):
        diff(run_model(base, (X,)), run_model(raw, (X + 1,)))


def test_inputs_that_do_not_fit() -> None:
    base, raw = pair()
    with pytest.raises(InputError, match="can't be called"):
        auto_diff(base, raw, {"nonsense": X}, auto_init=False)


def test_a_model_that_raises_keeps_the_trace_up_to_there() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.relu(x)
            raise ValueError("on purpose")

    with pytest.raises(ModelError, match="on purpose") as caught:
        run_model(Broken(), (X,))
    assert [c.api for c in caught.value.trace.calls] == ["torch.relu"]
    assert type(torch.relu).__name__ == "builtin_function_or_method"


def test_modes_and_generators_are_restored() -> None:
    base, raw = pair()
    base.train(), raw.train()
    before = [frameworks.get(name).rng_state() for name in frameworks.NAMES]
    assert auto_diff(base, raw, (X,), auto_init=False)
    assert base.training and raw.training
    assert before == [frameworks.get(name).rng_state() for name in frameworks.NAMES]
