"""One small port, one mistake at a time: the call, the argument and the line must be named."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

from optrace.api import auto_diff
from optrace.report.model import Report

WIDTH = 12


class Base(torch.nn.Module):
    """A mixer with a convolution, a norm, a gate, attention over positions and a residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.conv = torch.nn.Conv1d(3, WIDTH, 3, padding=1)
        self.norm = torch.nn.LayerNorm(WIDTH, eps=1e-6)
        self.fc = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.out = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.conv(x).transpose(1, 2))
        a, g = self.fc(h).chunk(2, dim=-1)
        h = h + a * torch.sigmoid(g)
        p = TF.softmax(h @ h.transpose(1, 2) / WIDTH**0.5, dim=-1)
        h = TF.gelu(torch.cat([p @ h, h], dim=-1))
        return self.out(h)


class Raw(paddle.nn.Layer):
    """The port. ``change`` maps a step's name to what replaces it."""

    def __init__(self, **change: Callable[..., Any]) -> None:
        super().__init__()
        self.conv = paddle.nn.Conv1D(3, WIDTH, 3, padding=1)
        self.norm = paddle.nn.LayerNorm(WIDTH, epsilon=1e-6)
        self.fc = paddle.nn.Linear(WIDTH, 2 * WIDTH)
        self.out = paddle.nn.Linear(2 * WIDTH, WIDTH)
        self.change = change

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        do = self.change.get
        h = do("norm", self.norm)(self.conv(x).transpose([0, 2, 1]))
        a, g = paddle.split(self.fc(h), 2, axis=-1)
        h = do("gate", lambda h, a, g: h + a * PF.sigmoid(g))(h, a, g)
        p = do("softmax", PF.softmax)(h.matmul(h, transpose_y=True) / WIDTH**0.5)
        h = do("join", lambda a, b: paddle.concat([a, b], axis=-1))(p.matmul(h), h)
        h = do("act", PF.gelu)(h)
        return self.out(h)


def carry_over(base: torch.nn.Module, raw: paddle.nn.Layer) -> None:
    for name, p in base.named_parameters():
        value = p.detach().numpy()
        linear = name in ("fc.weight", "out.weight")
        dict(raw.named_parameters())[name].set_value(np.ascontiguousarray(value.T if linear else value))


def compare(**change: Callable[..., Any]) -> Report:
    base, raw = Base(), Raw(**change)
    carry_over(base, raw)
    inputs = {"x": np.random.RandomState(3).randn(2, 3, 9).astype("float32")}
    return auto_diff(base, raw, inputs, auto_init=False)


def line_of(function: Callable[..., Any]) -> int:
    return inspect.getsourcelines(function)[1]


def test_a_right_port_is_aligned() -> None:
    report = compare()
    assert report, report.findings
    assert report.evidence.compared > 8
    assert report.evidence.unmatched_raw == 0


def normalised_loosely(h: Any) -> Any:
    return PF.layer_norm(h, [WIDTH], epsilon=1e-5)


def wrong_gate(h: Any, a: Any, g: Any) -> Any:
    return h + a * PF.sigmoid(a)


def no_residual(h: Any, a: Any, g: Any) -> Any:
    return a * PF.sigmoid(g)


def over_queries(s: Any) -> Any:
    return PF.softmax(s, axis=1)


def swapped(a: Any, b: Any) -> Any:
    return paddle.concat([b, a], axis=-1)


def tanh_gelu(h: Any) -> Any:
    return PF.gelu(h, approximate=True)


def twice(h: Any) -> Any:
    return PF.gelu(PF.gelu(h))


def relu_instead(h: Any) -> Any:
    return PF.relu(h)


@pytest.mark.parametrize(
    ("step", "mistake", "api", "kind", "argument"),
    [
        ("softmax", over_queries, "paddle.nn.functional.softmax", "argument", "dim"),
        ("act", tanh_gelu, "paddle.nn.functional.gelu", "argument", "approximate"),
        ("act", twice, "paddle.nn.functional.gelu", "extra_op", None),
        ("act", relu_instead, "paddle.nn.functional.relu", "value", None),
        ("gate", wrong_gate, "paddle.nn.functional.sigmoid", "value", "input"),
        ("join", swapped, "paddle.concat", "order", "tensors"),
    ],
)
def test_the_mistake_is_named(
    step: str, mistake: Callable[..., Any], api: str, kind: str, argument: str | None
) -> None:
    report = compare(**{step: mistake})
    first = report.first
    assert first is not None and first.raw is not None
    assert (first.raw.api, first.kind, first.argument) == (api, kind, argument), first.message
    assert first.raw.site is not None and first.raw.site.line == line_of(mistake) + 1
    assert first.error.local is not None and first.error.local.rel_l2 > 1e-6
    assert len(report.findings) == 1, [f.message for f in report.findings]


def test_a_missing_residual_is_a_missing_op() -> None:
    first = compare(gate=no_residual).first
    assert first is not None and first.base is not None
    assert first.kind == "missing_op"
    assert first.base.api == "torch.Tensor.__add__"


def test_every_independent_mistake_is_listed() -> None:
    report = compare(softmax=over_queries, act=tanh_gelu, join=swapped)
    assert [f.raw.api for f in report.findings if f.raw] == [
        "paddle.nn.functional.softmax",
        "paddle.concat",
        "paddle.nn.functional.gelu",
    ]


def test_a_changed_weight_is_named_with_its_parameter() -> None:
    base, raw = Base(), Raw()
    carry_over(base, raw)
    value = raw.fc.weight.numpy()
    value[3, 5] += 0.5
    raw.fc.weight.set_value(value)
    inputs = {"x": np.random.RandomState(3).randn(2, 3, 9).astype("float32")}
    first = auto_diff(base, raw, inputs, auto_init=False).first
    assert first is not None
    assert (first.kind, first.parameter) == ("weight", "fc.weight")
    assert "fc.weight" in first.message
