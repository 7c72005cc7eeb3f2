"""Another precision is a finding; the rounding that comes with it is none. Statistics are compared without a step, too."""

import paddle
import pytest
import torch
from loops import INPUT, loops, nets, only, paddle_mse, silent, torch_mse


def _under_autocast(model, backward):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.tensor(INPUT))
    loss = torch_mse(out.float())
    if backward:
        loss.backward()


def _plain(model, backward):
    loss = paddle_mse(model(paddle.to_tensor(INPUT)))
    if backward:
        loss.backward()


@pytest.mark.parametrize("backward", [False, True])
def test_autocast_on_one_side(backward):
    base, raw = nets()
    finding = only(loops(lambda: _under_autocast(base, backward), lambda: _plain(raw, backward)))
    assert (finding.kind, finding.raw.api) == ("dtype", "paddle.nn.functional.linear")
    assert "autocast is active on the base side only" in finding.message


def test_no_autocast_is_silent():
    base, raw = nets()
    silent(loops(lambda: base(torch.tensor(INPUT)), lambda: raw(paddle.to_tensor(INPUT))))


@pytest.mark.parametrize(("momentum", "argument"), [(0.1, "momentum"), (0.9, None)])
def test_running_statistics_of_one_call(momentum, argument):
    def torch_run():
        torch.nn.BatchNorm1d(5)(torch.tensor(INPUT))

    def paddle_run():
        paddle.nn.BatchNorm1D(5, momentum=momentum)(paddle.to_tensor(INPUT))

    finding = only(loops(torch_run, paddle_run))
    assert (finding.stage, finding.argument) == ("buffer", argument)
    assert finding.raw.api == "paddle.nn.functional.batch_norm"


def test_running_statistics_of_a_large_batch_are_silent():
    big = torch.tensor(INPUT).repeat(40, 1)
    silent(
        loops(
            lambda: torch.nn.BatchNorm1d(5)(big),
            lambda: paddle.nn.BatchNorm1D(5)(paddle.to_tensor(big.numpy())),
        )
    )
