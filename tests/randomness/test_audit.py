"""The audit lists what draws, and disturbs nothing."""

from __future__ import annotations

import random

import numpy as np
import paddle
import pytest
import torch
from torch.nn import functional as F

import optrace


def _program() -> tuple[float, float]:
    torch.manual_seed(1)
    paddle.seed(1)
    z = torch.ones(1, 2, 4, 4)
    F.dropout(z)
    F.scaled_dot_product_attention(z, z, z, dropout_p=0.5)
    torch.nn.LSTM(4, 4, 2, dropout=0.5)(z[0])
    paddle.nn.functional.dropout(paddle.ones([4]))
    return torch.rand(()).item(), paddle.rand([1]).item()


@pytest.mark.parametrize("level", ["meta", "stats", "full"])
def test_tracing_leaves_the_stream_alone(level: str) -> None:
    want = _program()
    with optrace.trace(level=level):
        assert _program() == want
    got: list[tuple[float, float]] = []
    optrace.audit_random(lambda: got.append(_program()))
    assert got == [want]


def test_every_generator_is_listed() -> None:
    def run() -> None:
        random.random()
        np.random.rand()
        torch.rand(2)
        torch.rand(2, generator=torch.Generator().manual_seed(3))

    found = {(op.api, op.generator) for op in optrace.audit_random(run)}
    assert found == {
        ("random.random", "python"),
        ("numpy.random.rand", "numpy"),
        ("torch.rand", "default"),
        ("torch.rand", "given (seed 3)"),
    }


def test_a_call_without_effect_is_listed_as_such() -> None:
    found = optrace.audit_random(lambda: F.rrelu(torch.ones(3), training=False))
    assert [op.effective for op in found] == [False]


def test_the_first_call_that_differs_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 30), torch.nn.Dropout(0.5))
    x = torch.ones(1, 3)
    found = optrace.check_determinism(lambda: model(x), seed=None)
    assert found is not None and found.second is not None
    assert found.second.module == "1" and "eval()" in found.message
    assert optrace.check_determinism(lambda: model(x)) is None


def test_a_dropout_that_outlives_eval_is_noted_with_its_line() -> None:
    class Always(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.dropout(x, 0.5)

    (found,) = optrace.audit_random(lambda: Always().eval()(torch.ones(4)))
    assert found.effective and found.p == 0.5 and "eval mode" in found.note
    assert found.site is not None and found.site.file.endswith("test_audit.py")


def test_draws_inside_fused_calls_are_listed() -> None:
    q = torch.ones(1, 1, 8, 8)
    net = torch.nn.GRU(4, 4, 2, dropout=0.5)
    found = optrace.audit_random(
        lambda: (F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), net(torch.ones(3, 1, 4)))
    )
    assert [(op.api.rpartition(".")[2].lower(), op.p, op.effective) for op in found] == [
        ("scaled_dot_product_attention", 0.5, True),
        ("gru", 0.5, True),
    ]


def test_only_what_random_numbers_reach_is_spared() -> None:
    def run(framework: object, size: object) -> None:
        x = framework.ones(size)  # type: ignore[attr-defined]
        x * 2
        x + framework.randn(size)  # type: ignore[attr-defined]

    with optrace.trace(level="full") as base:
        run(torch, 4)
    with optrace.trace(level="full") as raw:
        run(paddle, [4])
    report = optrace.diff(base, raw)
    assert report, str(report)


def test_an_entry_prints_as_one_line() -> None:
    (op,) = optrace.audit_random(lambda: torch.rand(2, generator=torch.Generator().manual_seed(3)))
    assert str(op).startswith("torch.rand (")
    assert str(op).endswith("takes effect, 1x, generator given (seed 3)")
