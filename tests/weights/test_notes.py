"""Weights that people have lost time with: what is done with them, and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from optrace import assign_weight, convert_checkpoint  # noqa: E402
from optrace.errors import WeightError  # noqa: E402

X = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")


def sequential(*layers: Any) -> Any:
    kind = torch.nn if isinstance(layers[0], torch.nn.Module) else paddle.nn
    return kind.Sequential(*layers)


@pytest.mark.parametrize("inputs", [(X,), None])
def test_a_square_matrix_is_said_to_be_one(inputs: Any) -> None:
    base, raw = sequential(torch.nn.Linear(4, 4)), sequential(paddle.nn.Linear(4, 4))
    report = assign_weight(base, raw, inputs)
    assert np.array_equal(raw[0].weight.numpy(), base[0].weight.detach().numpy().T)
    assert any("0.weight (transposed)" in n and "square" in n for n in report.notes)


class Bare(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Any) -> Any:
        return x @ self.w


class BarePaddle(paddle.nn.Layer):
    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.w = self.create_parameter([4, 4])
        self.transposed = transposed

    def forward(self, x: Any) -> Any:
        return paddle.matmul(x, self.w, transpose_y=self.transposed)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_bare_matrix_goes_by_its_use(transposed: bool) -> None:
    base, raw = Bare(), BarePaddle(transposed)
    assert assign_weight(base, raw, {"x": X}).verified
    wanted = base.w.detach().numpy()
    assert np.array_equal(raw.w.numpy(), wanted.T if transposed else wanted)
    assert any("give inputs" in n for n in assign_weight(base, raw).notes)


def test_affine_on_one_side_only() -> None:
    image = np.random.default_rng(1).standard_normal((2, 3, 4, 4)).astype("float32")
    base, raw = sequential(torch.nn.InstanceNorm2d(3)), sequential(paddle.nn.InstanceNorm2D(3))
    report = assign_weight(base, raw, (image,))
    assert report and report.verified and len([n for n in report.notes if "neutral" in n]) == 2
    raw[0].scale.set_value(np.array([1, 2, 1], "float32"))
    with pytest.raises(WeightError, match=r"0\.scale"):
        assign_weight(base, raw, (image,))
    affine = sequential(torch.nn.InstanceNorm2d(3, affine=True))
    torch.nn.init.normal_(affine[0].weight)
    assert assign_weight(affine, raw, (image,)).verified
    assert np.array_equal(raw[0].scale.numpy(), affine[0].weight.detach().numpy())
    with pytest.raises(WeightError, match=r"0\.scale"):
        assign_weight(raw, base, (image,))
    fresh = sequential(paddle.nn.InstanceNorm2D(3))
    report = assign_weight(fresh, base, (image,))
    assert report.verified and len([n for n in report.notes if "neutral" in n]) == 2


def test_weight_norm_over_another_axis() -> None:
    base = sequential(torch.nn.utils.weight_norm(torch.nn.Linear(4, 3)))
    raw = sequential(paddle.nn.utils.weight_norm(paddle.nn.Linear(4, 3)))
    before = raw[0].weight_v.numpy().copy()
    with pytest.raises(WeightError, match=r"\[3, 1\].*\[4\].*(?s:.)*dim=1"):
        assign_weight(base, raw)
    assert np.array_equal(before, raw[0].weight_v.numpy())
    report = assign_weight(base, raw, (X,))
    assert report.verified
    assert any("3 magnitudes" in n and "raw 4" in n and "dim=1" in n for n in report.notes)
    raw = sequential(paddle.nn.utils.weight_norm(paddle.nn.Linear(4, 3), dim=1))
    report = assign_weight(base, raw, (X,))
    assert report.verified and not report.notes
    assert np.allclose(raw[0].weight_g.numpy(), base[0].weight_g.detach().numpy().ravel())


def test_tied_weights_stay_tied() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.words.weight

        def forward(self, i: Any) -> Any:
            return self.head(self.words(i))

    class TiedPaddle(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = paddle.nn.Embedding(5, 3)

        def forward(self, i: Any) -> Any:
            return paddle.matmul(self.words(i), self.words.weight, transpose_y=True)

    base, raw = Tied(), TiedPaddle()
    report = assign_weight(base, raw, {"i": np.array([[1, 2, 3]])})
    assert report.verified and any("words.weight, head.weight" in n for n in report.notes)
    assert np.array_equal(raw.words.weight.numpy(), base.words.weight.detach().numpy())


def test_a_buffer_that_is_a_parameter_on_the_other_side() -> None:
    class Buffered(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.full((4,), 3.0))

        def forward(self, x: Any) -> Any:
            return x * self.scale

    class Trained(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scale = self.create_parameter([4])

        def forward(self, x: Any) -> Any:
            return x * self.scale

    raw = Trained()
    report = assign_weight(Buffered(), raw, {"x": X})
    assert (raw.scale.numpy() == 3).all()
    assert any("buffer of base" in n and "would be trained" in n for n in report.notes)


def test_nothing_is_broadcast_or_half_assigned() -> None:
    base, raw = sequential(torch.nn.Linear(4, 1)), sequential(paddle.nn.Linear(4, 3))
    before = [p.numpy().copy() for p in raw.parameters()]
    with pytest.raises(WeightError, match=r"\[1, 4\].*\[4, 3\]"):
        assign_weight(base, raw, (X,))
    assert all(np.array_equal(a, p.numpy()) for a, p in zip(before, raw.parameters()))


def test_bfloat16_bit_for_bit() -> None:
    base = sequential(torch.nn.Linear(4, 4)).bfloat16()
    raw = sequential(paddle.nn.Linear(4, 4)).bfloat16()
    assign_weight(base, raw)
    bits = base[0].weight.detach().view(torch.int16).numpy().view("uint16")
    assert np.array_equal(raw[0].weight.numpy(), bits.T)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "model."])
def test_prefixes_of_wrappers(prefix: str, tmp_path: Any) -> None:
    torch.save({prefix + k: v for k, v in torch.nn.Linear(2, 2).state_dict().items()}, tmp_path / "a.bin")
    rules = [{"from": "weight", "to": "weight", "transpose": True}, {"from": "bias", "to": "bias"}]
    report = convert_checkpoint(tmp_path / "a.bin", tmp_path / "a.pdparams", rules=rules)
    assert report.prefix == prefix and set(report.mapping) == {"weight", "bias"} and prefix in str(report)
    torch.save({"model.weight": torch.ones(1)}, tmp_path / "b.bin")
    kept = convert_checkpoint(
        tmp_path / "b.bin", tmp_path / "b.pdparams", rules=[{"from": "{all*}", "to": "{all*}"}]
    )
    assert set(kept.mapping) == {"model.weight"} and not kept.prefix


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.high, self.out = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.low(x)) + torch.tanh(self.high(x)))


class PaddleBranches(paddle.nn.Layer):
    def __init__(self, weight: float) -> None:
        super().__init__()
        self.one, self.two, self.out = (paddle.nn.Linear(4, 4) for _ in range(3))
        self.share = weight

    def forward(self, x: Any) -> Any:
        return self.out(paddle.tanh(self.two(x)) + self.share * paddle.tanh(self.one(x)))


def test_branches_that_may_change_places() -> None:
    report = assign_weight(Branches(), PaddleBranches(1.0), {"x": X})
    assert report.verified
    assert [set(g) for g in report.ambiguous] == [{"one.weight", "one.bias", "two.weight", "two.bias"}]
    assert "may change places" in str(report)
    attention = torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    port = paddle.nn.TransformerEncoderLayer(4, 2, 8, 0.0)
    report = assign_weight(sequential(attention), sequential(port), (X[None],))
    assert report.verified and not report.ambiguous
