"""Recurrent layers: which weight fills which slot of the fused call, and weights that the call does not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from optrace import assign_weight  # noqa: E402
from optrace.errors import WeightError  # noqa: E402
from optrace.weights import recurrent  # noqa: E402

X = {"x": np.random.default_rng(0).standard_normal((2, 3, 2)).astype("float32")}


class Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(2, 3, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)[0]


class Paddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = paddle.nn.LSTM(2, 3)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)[0]


class Cell(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(2, 3)

    def forward(self, x: Any) -> Any:
        h = c = torch.zeros(len(x), 3)
        made = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            made.append(h)
        return torch.stack(made, 1)


def exchanged(model: Any) -> Any:
    """Paddle's layer keeps a list of its weights, so the new one has no effect."""
    model.rnn.weight_hh_l0 = model.create_parameter([12, 3])
    return model


def normed(model: Any) -> Any:
    paddle.nn.utils.weight_norm(model.rnn, "weight_hh_l0")
    return model


@pytest.mark.parametrize("change", [exchanged, normed])
@pytest.mark.parametrize("flip", [False, True])
def test_a_weight_that_the_call_does_not_read(change: Callable[[Any], Any], flip: bool) -> None:
    models = (change(Paddle()), Torch()) if flip else (Torch(), change(Paddle()))
    report = assign_weight(*models, X)
    assert report.verified
    said = "weight used by lstm is not rnn.weight_hh_l0, which has no effect, but rnn.0.cell.weight_hh"
    assert f"{'base' if flip else 'raw'}: {said}" in report.notes
    with pytest.raises(WeightError, match="give inputs"):
        assign_weight(*models)


def test_a_plain_tensor_in_place_of_a_weight() -> None:
    base = Torch()
    del base.rnn._parameters["weight_hh_l0"]
    base.rnn.weight_hh_l0 = torch.zeros(12, 3)
    raw = Paddle()
    before = raw.rnn.weight_ih_l0.numpy().copy()
    with pytest.raises(
        WeightError, match=r"weight used by lstm is no parameter: rnn\.weight_hh_l0 is a plain"
    ):
        assign_weight(base, raw, X)
    assert np.array_equal(before, raw.rnn.weight_ih_l0.numpy())


def test_a_weight_made_anew_in_each_run() -> None:
    """As weight drop does it: the parameter has another name, the attribute holds what came of it."""
    base = Torch()
    weight = base.rnn.weight_hh_l0
    del base.rnn._parameters["weight_hh_l0"]
    base.rnn.register_parameter("weight_hh_l0_raw", weight)

    def made(layer: Any, args: Any) -> None:
        layer.weight_hh_l0 = torch.nn.functional.dropout(layer.weight_hh_l0_raw, 0.5, layer.training)

    base.rnn.register_forward_pre_hook(made)
    raw = Paddle()
    report = assign_weight(base, raw, X)
    assert report.verified and not report.notes
    assert np.array_equal(raw.rnn.weight_hh_l0.numpy(), weight.detach().numpy())


@pytest.mark.parametrize("inputs", [X, None])
@pytest.mark.parametrize(("base", "raw"), [(Cell, Paddle), (Paddle, Cell), (Cell, Torch)])
def test_a_cell_in_a_loop_is_a_layer(base: Any, raw: Any, inputs: Any) -> None:
    report = assign_weight(base(), raw(), inputs)
    assert len(report.mapping) == 4 and report.verified is (True if inputs else None)


def test_tied_directions_are_no_news() -> None:
    base = torch.nn.LSTM(2, 3, batch_first=True, bidirectional=True)
    base.weight_hh_l0_reverse = base.weight_hh_l0
    raw = torch.nn.LSTM(2, 3, batch_first=True, bidirectional=True)
    raw.weight_hh_l0_reverse = raw.weight_hh_l0
    report = assign_weight(base, raw, (X["x"],))
    assert report.verified and not report.notes


def test_slots() -> None:
    assert recurrent.slot("a.0.cell_bw.bias_hh", fused=True) == "bias_hh_l0_reverse"
    assert recurrent.slot("a.0.cell_bw.bias_hh") == "bias_hh"
    assert recurrent.slot("a.parametrizations.weight_ih_l2.original0") == "weight_ih_l2"
    assert recurrent.alike("weight_hh", "weight_hh_l0") > 0 == recurrent.alike("weight_hh_l1", "weight_hh_l0")
    assert recurrent.alike("weight_ih", "weight_hh") == 0
