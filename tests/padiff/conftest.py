"""Small models of both frameworks, as PaDiff's users write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
import torch

from optrace import padiff


class Layer(paddle.nn.Layer):
    """linear, relu, a residual, linear."""

    def __init__(self, scale: float = 1.0, push: float = 0.0) -> None:
        super().__init__()
        self.linear1 = paddle.nn.Linear(24, 24)
        self.linear2 = paddle.nn.Linear(24, 6)
        self.act = paddle.nn.ReLU()
        self.scale, self.push = scale, push

    def forward(self, x: Any) -> Any:
        inner = self.act(self.linear1(x)) * self.scale
        if self.push:
            inner.register_hook(lambda g: g + self.push)
        return self.linear2(inner + x)


class Module(torch.nn.Module):
    """The same in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1 = torch.nn.Linear(24, 24)
        self.linear2 = torch.nn.Linear(24, 6)
        self.act = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.linear2(self.act(self.linear1(x)) + x)


@pytest.fixture(autouse=True)
def dumps(tmp_path: Path) -> Iterator[Path]:
    before = padiff.get_dump_root_path()
    padiff.set_dump_root_path(str(tmp_path))
    paddle.seed(5)
    torch.manual_seed(5)
    yield tmp_path
    padiff.set_dump_root_path(before)


@pytest.fixture
def array() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((16, 24)).astype("float32")


@pytest.fixture
def both() -> Callable[[np.ndarray], Any]:
    """Inputs as PaDiff takes them, torch's first."""
    return lambda array: ({"x": torch.as_tensor(array)}, {"x": paddle.to_tensor(array)})
