"""A small torch model and a port of it to paddle that holds three mistakes. See docs/tutorial.md."""

from typing import Any

import numpy as np
import paddle
import torch

import optrace


class TorchBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.out = torch.nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        hidden = torch.nn.functional.gelu(self.project(x))
        hidden = self.norm(hidden)
        return torch.softmax(self.out(hidden), dim=1)


class PaddleBlock(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.project = paddle.nn.Linear(16, 32)
        self.norm = paddle.nn.LayerNorm(32, epsilon=1e-6)
        self.out = paddle.nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        hidden = paddle.nn.functional.gelu(self.project(x), approximate=True)
        hidden = self.norm(hidden)
        return paddle.nn.functional.softmax(self.out(hidden))


if __name__ == "__main__":
    x = np.random.RandomState(0).randn(2, 5, 16).astype("float32")
    report = optrace.auto_diff(TorchBlock(), PaddleBlock(), {"x": x})
    print(report)
