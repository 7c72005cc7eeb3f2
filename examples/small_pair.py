"""A small mixer block in both frameworks, with a mistake of the kind that ports have."""

import numpy as np
import paddle
import torch

import optrace

WIDTH = 16


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(x @ x.transpose(1, 2) / WIDTH**0.5, dim=-1)
        x = x + scores @ x
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Port(paddle.nn.Layer):
    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis
        self.norm = paddle.nn.LayerNorm(WIDTH)
        self.up = paddle.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = paddle.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        scores = paddle.nn.functional.softmax(x @ x.transpose([0, 2, 1]) / WIDTH**0.5, axis=self.axis)
        x = x + scores @ x
        return x + self.down(paddle.nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
base = Block()
x = np.random.default_rng(0).standard_normal((2, 8, WIDTH)).astype("float32")

print("1. The port as it should be\n")
report = optrace.auto_diff(base, Port(), (x,))
print(report)
assert report, "the pair should be aligned"

print("\n2. The port with softmax over the wrong axis\n")
report = optrace.auto_diff(base, Port(axis=1), (x,))
print(report)
assert report.first is not None and report.first.argument in ("dim", "axis")
