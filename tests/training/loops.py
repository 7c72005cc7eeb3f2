"""Small models and loops of both frameworks for the training tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import torch

import optrace

INPUT = np.random.default_rng(1).standard_normal((8, 5)).astype("float32")
TARGET = np.random.default_rng(2).standard_normal((8, 3)).astype("float32")
LABELS = np.array([0, 2, 1, 1, 0, 2, 2, 1], "int64")


class TorchNet(torch.nn.Module):
    """Two layers with ``middle`` between them."""

    def __init__(self, middle: Callable[[Any], Any] = torch.tanh) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.a, self.b = torch.nn.Linear(5, 6), torch.nn.Linear(6, 3)
        self.middle = middle

    def forward(self, x: Any) -> Any:
        return self.b(self.middle(self.a(x)))


class PaddleNet(paddle.nn.Layer):
    """The port of ``TorchNet``, with its weights."""

    def __init__(self, like: TorchNet, middle: Callable[[Any], Any] = paddle.tanh) -> None:
        super().__init__()
        self.a, self.b = paddle.nn.Linear(5, 6), paddle.nn.Linear(6, 3)
        self.middle = middle
        for name in ("a", "b"):
            mine, theirs = getattr(self, name), getattr(like, name)
            mine.weight.set_value(theirs.weight.detach().numpy().T)
            mine.bias.set_value(theirs.bias.detach().numpy())

    def forward(self, x: Any) -> Any:
        return self.b(self.middle(self.a(x)))


def nets(torch_middle: Any = torch.tanh, paddle_middle: Any = paddle.tanh) -> tuple[TorchNet, PaddleNet]:
    base = TorchNet(torch_middle)
    return base, PaddleNet(base, paddle_middle)


def torch_mse(out: Any) -> Any:
    return torch.nn.functional.mse_loss(out, torch.tensor(TARGET))


def paddle_mse(out: Any) -> Any:
    return paddle.nn.functional.mse_loss(out, paddle.to_tensor(TARGET))


def train(
    base: Any, raw: Any, optimizers: Any = None, losses: Any = (torch_mse, paddle_mse), steps: int = 3
) -> Any:
    """The report of ``auto_diff`` in train mode."""
    if optimizers is None:
        optimizers = (
            torch.optim.SGD(base.parameters(), lr=0.1),
            paddle.optimizer.SGD(learning_rate=0.1, parameters=raw.parameters()),
        )
    return optrace.auto_diff(
        base, raw, {"x": INPUT}, losses, optimizers, auto_init=False, train=True, steps=steps
    )


def loops(torch_loop: Callable[[], None], paddle_loop: Callable[[], None]) -> Any:
    """The report on two loops traced whole."""
    with optrace.trace(level="full") as a:
        torch_loop()
    with optrace.trace(level="full") as b:
        paddle_loop()
    return optrace.diff(a, b)


def only(report: Any) -> Any:
    """The report's one finding."""
    assert len(report.findings) == 1, [f"{f.stage} {f.message}" for f in report.findings]
    return report.first


def silent(report: Any) -> None:
    assert not report.findings, [f"{f.stage} {f.message}" for f in report.findings]
