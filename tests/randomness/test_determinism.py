"""The same run twice: what differs first is named, whatever makes it differ."""

from __future__ import annotations

import itertools

import numpy as np
import paddle
import torch

import optrace


def test_an_unseeded_draw_is_named_with_its_line() -> None:
    def run() -> None:
        torch.ones(3) * torch.rand(3, generator=fresh)

    fresh = torch.Generator()
    found = optrace.check_determinism(run)
    assert found is not None and found.second is not None and found.drew
    assert found.second.api == "torch.rand"


def test_another_order_of_calls_is_named() -> None:
    orders = itertools.cycle([("sin", "cos"), ("cos", "sin")])  # as a set of strings may come
    x = torch.ones(3)
    found = optrace.check_determinism(lambda: [getattr(x, n)() for n in next(orders)])
    assert found is not None and found.first is not None and found.second is not None
    assert (found.first.api, found.second.api) == ("torch.Tensor.sin", "torch.Tensor.cos")


def test_another_number_of_draws_is_named() -> None:
    counts = itertools.count(1)

    def run() -> None:
        for _ in range(next(counts)):
            paddle.rand([2])

    found = optrace.check_determinism(run)
    assert found is not None and "more calls" in found.message
    assert found.first is not None and found.first.api == "paddle.rand"


def test_data_that_differs_is_not_called_a_draw() -> None:
    data = iter(np.arange(6, dtype="float32").reshape(2, 3))
    found = optrace.check_determinism(lambda: torch.from_numpy(next(data)) * 2)
    assert found is not None and not found.drew


def test_a_seeded_program_is_deterministic_and_the_stream_is_left_alone() -> None:
    torch.manual_seed(4)
    want = torch.rand(1).item()
    torch.manual_seed(4)
    assert optrace.check_determinism(lambda: torch.nn.Dropout(0.5)(torch.ones(30))) is None
    assert torch.rand(1).item() == want
