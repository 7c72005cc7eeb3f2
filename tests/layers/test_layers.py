"""Layer by layer: what is paired, where a difference is said to begin, what opening a layer shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
import torch

import optrace
from optrace.errors import InputError
from optrace.layers import Selection, compare_layers
from optrace.layers.closeness import Tolerance


def net(framework: Any, mistake: str = "") -> Any:
    """Two branches, a norm, dropout; ``mistake`` puts one into it."""
    nn = framework.nn
    eps = "eps" if framework is torch else "epsilon"

    class Block(nn.Module if framework is torch else nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(12, 20), nn.Linear(20, 12)
            self.act = nn.Tanh() if mistake == "act" else nn.GELU()

        def forward(self, x: Any) -> Any:
            return self.down(self.act(self.up(x)))

    class Net(nn.Module if framework is torch else nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(12, **{eps: 1e-3 if mistake == "norm" else 1e-5})
            self.left, self.right = Block(), nn.Linear(12, 12)
            self.drop = nn.Dropout(0.2 if mistake == "drop" else 0.5)
            self.head = nn.Linear(12, 3)

        def forward(self, x: Any) -> Any:
            x = self.norm(x)
            # The branches may come the other way round: the same function.
            first, second = (self.right, self.left) if mistake == "order" else (self.left, self.right)
            y = first(x) + second(x)
            if mistake == "between":
                y = y * 1.02
            return self.head(self.drop(y))

    return Net()


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).standard_normal((8, 12)).astype("float32")}


def pair(mistake: str, flip: bool = False) -> tuple[Any, Any]:
    torch.manual_seed(1)
    paddle.seed(1)
    base, raw = (paddle, torch) if flip else (torch, paddle)
    models = net(base), net(raw, mistake)
    optrace.assign_weight(*models)
    return models


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("single_step", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mistake", ["", "order"])
def test_correct_ports(
    mistake: str, train: bool, single_step: bool, flip: bool, inputs: dict[str, np.ndarray]
) -> None:
    base, raw = pair(mistake, flip)
    report = compare_layers(base, raw, inputs, single_step=single_step, train=train)
    assert report, str(report)
    assert [(a.name, b.name) for a, b in report.pairs] == [(a.name, a.name) for a, _ in report.pairs]
    assert len(report.pairs) == 9 and report.skipped == ([], [])


@pytest.mark.parametrize("single_step", [False, True])
@pytest.mark.parametrize(
    ("mistake", "layer", "says"),
    [
        ("norm", "norm", "eps"),
        ("act", "left", "tanh"),
        ("between", "", "what goes into drop"),
    ],
)
def test_mistakes_and_opening_them(
    mistake: str, layer: str, says: str, single_step: bool, inputs: dict[str, np.ndarray]
) -> None:
    base, raw = pair(mistake)
    report = compare_layers(base, raw, inputs, single_step=single_step)
    assert not report and report.first is not None
    assert report.first.raw.name == layer
    opened = " ".join(f.message for f in report.first.open()) if layer else report.first.message
    assert says in opened
    assert "<---  here" in str(report)


def test_dropout_is_judged_on_base_draws(inputs: dict[str, np.ndarray]) -> None:
    base, raw = pair("drop")
    assert compare_layers(base, raw, inputs, train=False)
    report = compare_layers(base, raw, inputs, train=True)
    assert report.first is not None and report.first.raw.name == "drop"
    assert report.first.open()[0].argument == "p"


def test_models_are_left_alone(inputs: dict[str, np.ndarray]) -> None:
    base, raw = pair("")
    before = torch.random.get_rng_state(), base(torch.as_tensor(inputs["x"])).detach()
    torch.random.set_rng_state(before[0])
    base.train()
    raw.eval()
    compare_layers(base, raw, inputs, single_step=True, train=True)
    assert base.training and not raw.training
    assert torch.equal(torch.random.get_rng_state(), before[0])
    for model in (base, raw):
        modules = [m for _, m in Selection(model).modules.items()]
        assert not any(m._forward_hooks if model is base else m._forward_post_hooks for m in modules)
        assert not any(m._forward_pre_hooks for m in modules)


def test_selections() -> None:
    model = net(paddle)
    chosen = Selection(model, skip_wrappers=False)
    assert chosen.names() == {"", "norm", "left", "left.up", "left.act", "left.down", "right", "drop", "head"}
    chosen.black("left", "sublayers")
    assert "left" in chosen.names() and "left.up" not in chosen.names()
    chosen.black(model.left, "self")
    assert "left" not in chosen.names()
    white = Selection(model, skip_wrappers=False)
    white.white([model.left], "all")
    white.black(white.of_class(paddle.nn.GELU), "self")
    assert white.names() == {"", "left", "left.up", "left.down"}
    assert Selection(model, skip_wrappers=True).names() == {
        "",
        "norm",
        "left.up",
        "left.down",
        "right",
        "head",
    }
    mapped = Selection(model, skip_wrappers=True)
    mapped.map(["left"])
    assert mapped.names() == {"", "norm", "left", "right", "head"}
    with pytest.raises(InputError, match="its layers are: norm, left"):
        chosen.black("lefty")
    with pytest.raises(InputError, match="self"):
        chosen.black("left", "everything")  # type: ignore[arg-type]


def test_auto_diff_honours_its_options(inputs: dict[str, np.ndarray]) -> None:
    base, raw = pair("norm")
    report = optrace.auto_diff(base, raw, inputs, single_step=True)
    assert not report and report.findings[0].argument in ("eps", "epsilon")
    assert report.layers is not None and report.layers.first.raw.name == "norm"
    assert "Layers" in str(report)
    base, raw = pair("")
    report = optrace.auto_diff(base, raw, inputs, layer_map={"left": "left"})
    assert report and [a.name for a, _ in report.layers.pairs] == [
        "",
        "norm",
        "left",
        "right",
        "drop",
        "head",
    ]
    losses = (lambda out: out.sum(), lambda out: out.sum() * 2)
    assert not optrace.auto_diff(base, raw, inputs, losses)
    assert optrace.auto_diff(base, raw, inputs, losses, diff_phase="forward")
    assert all(p.grad is None for p in pair("")[0].parameters())
    assert optrace.auto_diff(base, raw, inputs, diff_phase="backward")
    for wrong in ({"diff_phase": "up"}, {"compare_mode": "loosely"}, {"layer_map": {"nowhere": "left"}}):
        with pytest.raises(optrace.OptraceError):
            optrace.auto_diff(base, raw, inputs, **wrong)


def test_tolerances() -> None:
    a = np.linspace(-1, 1, 50, dtype="float32")
    assert Tolerance().agree(a, a * np.float32(1 + 1e-6)) and not Tolerance().agree(a, a * 1.001)
    assert Tolerance(atol=1e-2).agree(a, a * 1.001)
    assert not Tolerance(atol=1e-9).agree(a, a * np.float32(1 + 1e-6))
    assert Tolerance(atol=1e-9, mode="mean").agree(a, a * np.float32(1 + 1e-6))
    assert not Tolerance(mode="mean").agree(a, a[::-1])  # the means are equal
    assert not Tolerance(atol=1e9).agree(a, a[:1])  # shapes never broadcast
    assert not Tolerance(atol=1e9).agree(a, np.where(a > 0, np.nan, a))
