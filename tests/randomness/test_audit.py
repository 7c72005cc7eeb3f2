"""The audit lists what draws, and disturbs nothing."""

from __future__ import annotations

import random

import numpy as np
import paddle
import pytest
import torch
from torch.nn import functional as F

import optrace
from optrace.randomness import check_determinism


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
    found = check_determinism(lambda: model(x), seed=None)
    assert found is not None and found.second is not None
    assert found.second.module == "1" and "eval()" in found.message
    assert check_determinism(lambda: model(x)) is None
