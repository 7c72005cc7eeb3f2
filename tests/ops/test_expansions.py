"""Expansions compute what the fused call computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import Run, by_distribution, carried, close, example, flat, to_numpy

from optrace.ops import expansion
from optrace.ops.schema import Row
from optrace.ops.table import table

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

CASES = [
    pytest.param(row, framework, i, id=f"{row.name}-{framework}-{i}")
    for row in table().rows
    for framework in ("torch", "paddle")
    for i in range(len(row.examples))
    if getattr(row.expansion, framework) and row.torch and row.paddle and not by_distribution(row, i)
]


@pytest.mark.parametrize(("row", "framework", "index"), CASES)
def test_expansion_agrees_with_its_op(row: Row, framework: str, index: int) -> None:
    api = row.names(framework)[0]
    args: dict[str, Any] | None = example(row, index)
    if framework == "paddle":
        args = carried(row, args or {}, row.names("torch")[0], api)
    assert args is not None
    written_out = expansion(api)
    assert written_out is not None
    fused = Run(row, api, args)
    again = Run(row, api, args, replace=written_out)
    for a, b in zip(fused.arrays(), again.arrays(), strict=True):
        assert close(a, b, 1e-4) == ""


def test_every_named_expansion_exists() -> None:
    for row in table().rows:
        for framework in ("torch", "paddle"):
            if getattr(row.expansion, framework):
                assert callable(expansion(row.names(framework)[0]))


def same(a: Any, b: Any) -> None:
    for x, y in zip(flat(a), flat(b), strict=True):
        assert close(to_numpy(x), to_numpy(y), 1e-4) == ""


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_torch_recurrent_layers(kind: str, bidirectional: bool) -> None:
    layer = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=bidirectional, batch_first=True)
    x = torch.randn(2, 5, 3)
    state = torch.randn(4 if bidirectional else 2, 2, 4)
    hx = (state, state + 1) if kind == "LSTM" else state
    name = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}[kind]
    weights = [p for group in layer.all_weights for p in group]
    written_out = expansion(f"torch.{name}")
    assert written_out is not None
    out, *states = written_out(x, hx, weights, True, 2, 0.0, False, bidirectional, True)
    expected, finals = layer(x, hx)
    same([out, *states], [expected, finals])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("direction", ["forward", "bidirect"])
def test_paddle_recurrent_layers(kind: str, direction: str) -> None:
    layer = getattr(paddle.nn, kind)(3, 4, num_layers=2, direction=direction)
    directions = 2 if direction == "bidirect" else 1
    x = paddle.randn([2, 5, 3])
    states = [paddle.randn([2 * directions, 2, 4]) for _ in range(2 if kind == "LSTM" else 1)]
    each = [p for name, p in layer.named_parameters()]
    ordered = [p for i, p in enumerate(each) if i % 4 < 2] + [p for i, p in enumerate(each) if i % 4 >= 2]
    mode = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN_TANH"}[kind]
    written_out = expansion("paddle._C_ops.rnn")
    assert written_out is not None
    steps = paddle.transpose(x, [1, 0, 2])
    out, _, finals = written_out(
        steps, states, ordered, None, None, 0.0, directions == 2, 3, 4, 2, mode, 0, True
    )
    expected, expected_states = layer(x, tuple(states) if kind == "LSTM" else states[0])
    same([paddle.transpose(out, [1, 0, 2]), finals], [expected, expected_states])


@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_multi_head_attention(mask: str | None) -> None:
    layer = torch.nn.MultiheadAttention(8, 2).eval()
    x = torch.randn(5, 3, 8)
    masks = {
        None: None,
        "bool": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1),
        "float": torch.tensor(np.random.default_rng(0).standard_normal((5, 5)), dtype=torch.float32),
    }
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 4] = True
    args = (8, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0)
    options = {"training": False, "key_padding_mask": padding, "attn_mask": masks[mask]}
    rest = (layer.out_proj.weight, layer.out_proj.bias)
    written_out = expansion("torch.nn.functional.multi_head_attention_forward")
    assert written_out is not None
    fused = torch.nn.functional.multi_head_attention_forward(x, x, x, *args, *rest, **options)
    same(written_out(x, x, x, *args, *rest, **options), fused)
