"""What the user settles: rules, layer maps, special inits; and what happens when nothing can be done."""

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from optrace.errors import WeightError  # noqa: E402
from optrace.weights import special  # noqa: E402
from optrace.weights.assign import assign_weight  # noqa: E402
from optrace.weights.special import add_special_init  # noqa: E402

X = {"x": np.random.default_rng(0).standard_normal((3, 6)).astype("float32")}


class TorchTwo(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        return self.a(x) * self.b(x)


class PaddleTwo(paddle.nn.Layer):
    def __init__(self, width=6, bias=None):
        super().__init__()
        self.p, self.q = paddle.nn.Linear(6, width), paddle.nn.Linear(6, width, bias_attr=bias)

    def forward(self, x):
        return self.p(x) * self.q(x)


class PaddleWrapped(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = paddle.nn.Sequential(paddle.nn.ReLU(), PaddleTwo(5))

    def forward(self, x):
        return self.body(x)


@pytest.fixture
def two():
    torch.manual_seed(0)
    return TorchTwo(), PaddleTwo()


@pytest.fixture
def no_special(monkeypatch):
    monkeypatch.setattr(special, "_registered", {})


def state(model):
    return {k: np.array(v.numpy()) for k, v in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("inputs", [X, None])
def test_rules_by_name_transpose_by_meaning(two, inputs):
    base, raw = two
    rules = {"p.weight": "b.weight", "p.bias": "b.bias", "q.weight": "a.weight", "q.bias": "a.bias"}
    report = assign_weight(base, raw, inputs, rules=rules)
    assert np.array_equal(raw.p.weight.numpy(), base.b.weight.detach().numpy().T)
    assert np.array_equal(raw.q.bias.numpy(), base.a.bias.detach().numpy())
    assert report.mapping["p.weight"] == ("b.weight",)
    assert report.verified is (True if inputs else None)


def test_some_rules_and_the_rest_found(two):
    base, raw = two
    report = assign_weight(base, raw, X, rules={"p.weight": "b.weight", "p.bias": "b.bias"})
    assert report.verified
    assert np.array_equal(raw.q.weight.numpy(), base.a.weight.detach().numpy().T)


def test_rules_as_a_list(two):
    base, raw = two
    rules = [
        {"from": "a.{what}", "to": "q.{what}", "transpose": True},
        {"from": "b.{what}", "to": "p.{what}", "transpose": True},
    ]
    assert assign_weight(base, raw, X, rules=rules).verified
    assert np.array_equal(raw.p.weight.numpy(), base.b.weight.detach().numpy().T)


def test_bad_rules_leave_everything(two):
    base, raw = two
    before = state(raw)
    for rules, words in (
        ({"p.weight": "z.weight"}, "z.weight"),
        ({"p.weight": "a.bias"}, "sizes differ"),
        ([{"from": "a.weight", "to": "nowhere"}], "nowhere"),
        ([{"from": "a.weight", "to": "p.bias"}], "p.bias"),
        ([{"from": "a.weight", "too": "p.bias"}], "too"),
    ):
        with pytest.raises(WeightError, match=words):
            assign_weight(base, raw, X, rules=rules)
        assert same(before, state(raw))


def test_layer_map_by_object_or_name_in_either_direction(two):
    base, raw = two
    for layer_map in (
        {base.a: raw.q, base.b: raw.p},
        [("a", "q"), ("b", "p")],
        {raw.q: base.a, raw.p: base.b},
    ):
        assert assign_weight(base, raw, X, layer_map=layer_map).verified
        assert np.array_equal(raw.q.weight.numpy(), base.a.weight.detach().numpy().T)


def test_layer_map_of_unlike_layers():
    base, raw = TorchTwo(), PaddleTwo(5)
    before = state(raw)
    with pytest.raises(WeightError, match=r"'a' and 'q', paired by the layer map"):
        assign_weight(base, raw, X, layer_map={base.a: raw.q})
    assert same(before, state(raw))


def test_special_init(two, no_special):
    base, raw = two
    seen = []

    @add_special_init("torch", "Linear", "paddle", "Linear")
    def convert(base_layer, raw_layer):
        seen.append((base_layer, raw_layer))
        raw_layer.weight.set_value(base_layer.weight.detach().numpy().T)
        raw_layer.bias.set_value(base_layer.bias.detach().numpy())

    report = assign_weight(base, raw, X, layer_map={base.a: raw.q})
    assert [(b is base.a, r is raw.q) for b, r in seen] == [(True, True), (False, False)]
    assert report.verified and {row.method for row in report.rows} == {"special init"}


def test_special_init_that_fails_leaves_everything(two, no_special):
    base, raw = two
    before = state(raw)

    @add_special_init("torch", "Linear", "paddle", "Linear")
    def convert(base_layer, raw_layer):
        raw_layer.bias.set_value(base_layer.bias.detach().numpy())
        raise RuntimeError("no")

    with pytest.raises(WeightError, match="RuntimeError: no"):
        assign_weight(base, raw, X)
    assert same(before, state(raw))


@pytest.mark.parametrize("inputs", [X, None])
def test_error_names_both_and_draws_both_trees(inputs):
    base, raw = TorchTwo(), PaddleWrapped()
    before = state(raw)
    with pytest.raises(WeightError) as caught:
        assign_weight(base, raw, inputs)
    text = str(caught.value)
    for words in (
        "a.weight [6, 6] float32", "body.1.p.weight [6, 5] float32", "in a: Linear", "in body.1.p: Linear",
        "body: Sequential  (skip)", "0: ReLU  (skip)", "<--- here", "rules=", "layer_map=",
        "add_special_init",
    ):  # fmt: skip
        assert words in text, words
    assert same(before, state(raw))


def test_missing_bias_is_an_error():
    with pytest.raises(WeightError, match=r"no counterpart in raw for base b\.bias \[6\]"):
        assign_weight(TorchTwo(), PaddleTwo(bias=False), X)


def test_models_that_differ_otherwise_still_get_their_weights(two):
    """A port with a mistake in it is what optrace is for: weights are assigned, the report says more."""
    base, raw = two
    raw.forward = lambda x: raw.p(x) - raw.q(x)
    report = assign_weight(base, raw, X)
    assert report and report.verified is False
    assert "do not agree" in str(report)
    assert np.array_equal(raw.p.weight.numpy(), base.a.weight.detach().numpy().T)


def test_modes_and_generators_are_left_alone(two):
    base, raw = two
    raw.q.eval()
    base.a.eval()
    torch.manual_seed(5)
    paddle.seed(5)
    numbers = torch.rand(3), paddle.rand([3])
    torch.manual_seed(5)
    paddle.seed(5)
    assign_weight(base, raw, X)
    assert (base.training, base.a.training, raw.training, raw.q.training) == (True, False, True, False)
    assert torch.equal(numbers[0], torch.rand(3)) and bool((numbers[1] == paddle.rand([3])).all())
    assert all(p.grad is None for p in base.parameters())
    assert not any(p.stop_gradient for p in raw.parameters())


def test_same_framework_on_both_sides():
    a, b = TorchTwo(), TorchTwo()
    assert assign_weight(a, b, X).verified
    assert torch.equal(a.a.weight, b.a.weight)
    c, d = PaddleTwo(), PaddleTwo()
    assert assign_weight(c, d, (X["x"],)).verified


def test_pair_of_inputs(two):
    base, raw = two
    pair = ({"x": torch.tensor(X["x"])}, {"x": paddle.to_tensor(X["x"])})
    assert assign_weight(base, raw, pair).verified


def test_report_is_readable(two):
    text = str(assign_weight(*two, X))
    assert "verified, outputs agree" in text
    assert "a.weight [6, 6]" in text and "transposed" in text
