"""Mistakes that show in the backward pass only."""

import numpy as np
import paddle
import torch
from loops import loops, nets, only, silent, train


def _paddle_ste(x):
    return x + (paddle.round(x) - x).detach()


def _torch_ste(x):
    return x + (torch.round(x) - x).detach()


def test_equal_models_are_silent():
    silent(train(*nets()))


def test_straight_through():
    silent(train(*nets(_torch_ste, _paddle_ste)))
    finding = only(train(*nets(_torch_ste, lambda x: x + (paddle.round(x) - x))))
    assert finding.stage == "backward" and finding.parameter == "a.weight"


def test_forgotten_detach():
    def theirs(x):
        return torch.tanh(x) * torch.sigmoid(x).detach()

    silent(train(*nets(theirs, lambda x: paddle.tanh(x) * paddle.nn.functional.sigmoid(x).detach())))
    finding = only(train(*nets(theirs, lambda x: paddle.tanh(x) * paddle.nn.functional.sigmoid(x))))
    assert finding.stage == "backward" and finding.parameter == "a.weight"


def test_detach_too_many():
    finding = only(train(*nets(lambda x: torch.tanh(x) + x, lambda x: paddle.tanh(x).detach() + x)))
    assert finding.stage == "backward" and finding.raw.api == "paddle.Tensor.detach"


def test_no_grad_region():
    def mine(x):
        with paddle.no_grad():
            y = paddle.tanh(x)
        return y + x

    finding = only(train(*nets(lambda x: torch.tanh(x) + x, mine)))
    assert finding.stage == "backward" and finding.raw.api.endswith(".tanh")


def test_frozen_parameter():
    base, raw = nets()
    raw.b.bias.stop_gradient = True
    finding = only(train(base, raw))
    assert finding.stage == "backward" and finding.parameter == "b.bias"


def test_missing_hook():
    def theirs(x):
        y = torch.tanh(x)
        y.register_hook(lambda g: g * 0.5)
        return y

    def mine(x):
        y = paddle.tanh(x)
        y.register_hook(lambda g: g * 0.5)
        return y

    silent(train(*nets(theirs, mine)))
    finding = only(train(*nets(theirs, paddle.tanh)))
    assert finding.stage == "backward" and finding.kind == "missing_op"


def test_ties_of_maximum():
    grid = np.array([[2.0, 2.0, 1.0], [1.0, 3.0, 3.0]], "float32")
    found = loops(
        lambda: torch.tensor(grid, requires_grad=True).max(dim=1).values.sum().backward(),
        lambda: paddle.to_tensor(grid, stop_gradient=False).max(axis=1).sum().backward(),
    )
    finding = only(found)
    assert finding.stage == "backward" and finding.raw.api in ("paddle.max", "paddle.Tensor.max")


def test_gradient_that_is_not_finite():
    values = np.array([0.0, 2.0, 3.0], "float32")
    finding = only(
        loops(
            lambda: torch.tensor(values, requires_grad=True).prod().backward(),
            lambda: paddle.to_tensor(values, stop_gradient=False).prod().backward(),
        )
    )
    assert finding.stage == "backward" and "finite" in finding.message


def test_two_causes_are_both_found():
    base, raw = nets(lambda x: torch.tanh(x) + x, lambda x: paddle.tanh(x).detach() + x)
    raw.b.register_forward_post_hook(lambda layer, inputs, output: _halved(output))
    found = train(base, raw, steps=1).findings
    assert {f.raw.api for f in found} == {"paddle.Tensor.detach", "paddle.Tensor.register_hook"}


def _halved(output):
    output.register_hook(lambda g: g * 0.5)
    return output
