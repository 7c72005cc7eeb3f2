"""What the two sides return, and what meets at one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch

from optrace.api import auto_diff, diff
from optrace.report.model import Report
from optrace.trace.session import trace
from optrace.weights import assign_weight

X = np.random.RandomState(0).randn(4, 8).astype("float32")


class Base(torch.nn.Module):
    def __init__(self, then: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.then = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), then

    def forward(self, x: torch.Tensor) -> Any:
        return self.then(self, self.a(x))


class Raw(paddle.nn.Layer):
    def __init__(self, then: Callable[..., Any]) -> None:
        super().__init__()
        self.a, self.b, self.then = paddle.nn.Linear(8, 8), paddle.nn.Linear(8, 8), then

    def forward(self, x: paddle.Tensor) -> Any:
        return self.then(self, self.a(x))


def compare(base: Callable[..., Any], raw: Callable[..., Any], x: np.ndarray = X) -> Report:
    return auto_diff(Base(base), Raw(raw), {"x": x})


@pytest.mark.parametrize(
    ("base", "raw", "kind"),
    [
        (lambda m, h: torch.softmax(torch.relu(h), -1), lambda m, h: PF.relu(h), "missing_op"),
        (lambda m, h: torch.tanh(h).sum(1), lambda m, h: PF.tanh(h), "missing_op"),
        (
            lambda m, h: (torch.relu(h), torch.sigmoid(h))[0],
            lambda m, h: (PF.relu(h), PF.sigmoid(h))[1],
            "value",
        ),
        (lambda m, h: (h * 2, h * 3), lambda m, h: (h * 3, h * 2), "order"),
        (lambda m, h: torch.relu(h), lambda m, h: None, "missing_op"),
    ],
)
def test_another_result_is_never_aligned(
    base: Callable[..., Any], raw: Callable[..., Any], kind: str
) -> None:
    report = compare(base, raw)
    assert [f.kind for f in report.findings] == [kind], [f.message for f in report.findings]


def test_results_in_the_same_order_are_aligned() -> None:
    assert compare(lambda m, h: {"a": h * 2, "b": h * 3}, lambda m, h: (h * 2, h * 3))


def test_empty_tensors_are_equal() -> None:
    assert compare(lambda m, h: h * 2, lambda m, h: h * 2, X[:0])


def test_two_mistakes_at_one_call_are_both_named() -> None:
    report = compare(
        lambda m, h: m.b(torch.softmax(h / 4, -1)),
        lambda m, h: m.b(PF.softmax(h, axis=0)),
    )
    assert [f.kind for f in report.findings] == ["missing_op", "argument"]
    assert report.findings[1].argument == "dim"


def test_a_forgotten_bias_is_a_weight() -> None:
    base = Base(lambda m, h: m.b(torch.relu(h)))
    raw = Raw(lambda m, h: m.b(PF.relu(h)))
    assert assign_weight(base, raw, {"x": X})
    raw.b.bias.set_value(paddle.zeros([8]))
    report = auto_diff(base, raw, {"x": X}, auto_init=False)
    assert [(f.kind, f.parameter) for f in report.findings] == [("weight", "b.bias")]


def test_models_without_parameters_need_no_weights() -> None:
    class Base(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x)

    class Raw(paddle.nn.Layer):
        def forward(self, x: paddle.Tensor) -> paddle.Tensor:
            return paddle.exp(x)

    assert auto_diff(Base(), Raw(), {"x": X})


def test_a_run_that_an_exception_ended_is_not_aligned() -> None:
    with trace(level="full") as base:
        torch.relu(torch.tensor(X))
    with pytest.raises(RuntimeError), trace(level="full") as raw:
        PF.relu(paddle.to_tensor(X))
        raise RuntimeError("out of data")
    report = diff(base, raw)
    assert "out of data" in report.findings[0].message
