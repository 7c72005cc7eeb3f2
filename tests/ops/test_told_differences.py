"""Calls that are written the same way and give other numbers: the row says so, and it is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import to_numpy

from optrace.ops.differences import default_differences
from optrace.ops.table import table

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
TF, PF = torch.nn.functional, paddle.nn.functional
RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 6)).astype("float32")
IMAGE = RNG.standard_normal((1, 2, 4, 4)).astype("float32")
GRID = RNG.uniform(-0.9, 0.9, (1, 3, 3, 2)).astype("float32")
LOGITS = RNG.standard_normal((4, 3)).astype("float32")
IGNORED = np.array([0, 2, -100, 1])
TIES = np.array([[1.0, 3.0, 3.0]], "float32")
QKV = RNG.standard_normal((1, 2, 3, 4)).astype("float32")


def t(values: Any) -> Any:
    return torch.tensor(np.array(values))


def p(values: Any) -> Any:
    return paddle.to_tensor(np.array(values))


def torch_grad(f: Callable[[Any], Any], values: np.ndarray) -> Any:
    x = t(values).requires_grad_()
    f(x).sum().backward()
    return x.grad


def paddle_grad(f: Callable[[Any], Any], values: np.ndarray) -> Any:
    x = paddle.to_tensor(values, stop_gradient=False)
    f(x).sum().backward()
    return x.grad


# a name of the row, a word of its sentence, the call on either side
CASES: list[tuple[str, str, Callable[[], Any], Callable[[], Any]]] = [
    (
        "torch.nn.functional.softmax",
        "-64",
        lambda: TF.softmax(t([0.0, -80.0]), -1).log(),
        lambda: PF.softmax(p([0.0, -80.0]), -1).log(),
    ),
    (
        "torch.nn.functional.log_softmax",
        "-64",
        lambda: TF.log_softmax(t(np.float32([0, -80])), -1),
        lambda: PF.log_softmax(p(np.float32([0, -80])), -1),
    ),
    (
        "torch.nn.functional.embedding",
        "padding_idx",
        lambda: TF.embedding(t([0, 1]), t(X), padding_idx=1),
        lambda: PF.embedding(p([0, 1]), p(X), padding_idx=1),
    ),
    (
        "torch.nn.functional.cross_entropy",
        "ignore",
        lambda: TF.cross_entropy(t(LOGITS), t(IGNORED)),
        lambda: PF.cross_entropy(p(LOGITS), p(IGNORED)),
    ),
    (
        "torch.nn.functional.smooth_l1_loss",
        "huber",
        lambda: TF.smooth_l1_loss(t(X), t(X * 2), beta=0.5),
        lambda: PF.smooth_l1_loss(p(X), p(X * 2), delta=0.5),
    ),
    (
        "torch.nn.functional.cosine_similarity",
        "eps",
        lambda: TF.cosine_similarity(t(X), t(X * 1e-4), eps=0.01),
        lambda: PF.cosine_similarity(p(X), p(X * 1e-4), eps=0.01),
    ),
    (
        "torch.nn.functional.unfold",
        "order",
        lambda: TF.unfold(t(IMAGE), 2, 1, 0, 2),
        lambda: PF.unfold(p(IMAGE), 2, 1, 0, 2),
    ),
    (
        "torch.nn.functional.pad",
        "axes",
        lambda: TF.pad(t(X), [1, 1, 0, 0]),
        lambda: PF.pad(p(X), [1, 1, 0, 0]),
    ),
    ("torch.split", "size of the parts", lambda: t(X).split(2, 1)[0], lambda: p(X).split(2, 1)[0]),
    (
        "torch.nn.functional.avg_pool2d",
        "padding",
        lambda: TF.avg_pool2d(t(IMAGE), 2, 2, 1),
        lambda: PF.avg_pool2d(p(IMAGE), 2, 2, 1),
    ),
    (
        "torch.nn.functional.grid_sample",
        "align_corners",
        lambda: TF.grid_sample(t(IMAGE), t(GRID), align_corners=None),
        lambda: PF.grid_sample(p(IMAGE), p(GRID)),
    ),
    ("torch.median", "even", lambda: t(X).median(1)[0], lambda: p(X).median(1)),
    (
        "paddle.max",
        "tie",
        lambda: torch_grad(lambda x: x.max(1)[0], TIES),
        lambda: paddle_grad(lambda x: x.max(1), TIES),
    ),
    (
        "torch.prod",
        "NaN",
        lambda: torch_grad(lambda x: x.prod(), np.float32([2, 0, 3])),
        lambda: paddle_grad(lambda x: x.prod(), np.float32([2, 0, 3])),
    ),
    (
        "torch.std",
        "NaN",
        lambda: torch_grad(lambda x: x.std(), np.float32([2, 2, 2])),
        lambda: paddle_grad(lambda x: x.std(), np.float32([2, 2, 2])),
    ),
    (
        "torch.nn.functional.alpha_dropout",
        "training",
        lambda: TF.alpha_dropout(t(X), 0.5),
        lambda: PF.alpha_dropout(p(X), 0.5),
    ),
    (
        "torch.nn.functional.rrelu",
        "training",
        lambda: TF.rrelu(t(X)),
        lambda: PF.rrelu(p(X)),
    ),
    (
        "torch.nn.functional.batch_norm",
        "momentum",
        lambda: _running_mean(torch, TF),
        lambda: _running_mean(paddle, PF),
    ),
    (
        "torch.nn.functional.scaled_dot_product_attention",
        "batch, seq",
        lambda: TF.scaled_dot_product_attention(t(QKV), t(QKV), t(QKV)),
        lambda: PF.scaled_dot_product_attention(p(QKV), p(QKV), p(QKV)),
    ),
    (
        "torch.unique_consecutive",
        "flatten",
        lambda: torch.unique_consecutive(t([[1, 1], [2, 2]]), return_inverse=True)[1],
        lambda: paddle.unique_consecutive(p([[1, 1], [2, 2]]), return_inverse=True)[1],
    ),
    (
        "torch.nn.functional.linear",
        "[in, out]",
        lambda: TF.linear(t(X[:, :2]), t(X[:, 2:4])),
        lambda: PF.linear(p(X[:, :2]), p(X[:, 2:4])),
    ),
]


def _running_mean(framework: Any, functional: Any) -> Any:
    make = t if framework is torch else p
    mean, var = make(np.zeros(6, "float32")), make(np.ones(6, "float32"))
    functional.batch_norm(make(X), mean, var, training=True, momentum=0.9)
    return mean


@pytest.mark.parametrize(("name", "word", "ours", "theirs"), [pytest.param(*c, id=c[0]) for c in CASES])
def test_the_same_call_gives_other_numbers(
    name: str, word: str, ours: Callable[[], Any], theirs: Callable[[], Any]
) -> None:
    told = [s for row in table().rows_of(name) for s in row.differences]
    told += [str(d) for row in table().rows_of(name) for d in default_differences(row)]
    assert any(word.lower() in sentence.lower() for sentence in told), told
    a, b = to_numpy(ours()), to_numpy(theirs())
    assert a.shape != b.shape or not np.allclose(a, b, atol=1e-5)


def test_integers_and_floats_are_refused_by_paddle_and_promoted_by_torch() -> None:
    assert (t([1]) + t(np.float32([0.5]))).dtype == torch.float32
    with pytest.raises(Exception, match=r"."):
        paddle.add(p([1]), p(np.float32([0.5])))
    told = " ".join(s for row in table().rows_of("torch.add") for s in row.differences)
    assert "promote" in told


def test_one_hot_is_of_another_dtype() -> None:
    assert TF.one_hot(t([1])).dtype == torch.int64
    assert "float" in str(PF.one_hot(p([1]), 2).dtype)
    assert any(
        "float" in s for row in table().rows_of("torch.nn.functional.one_hot") for s in row.differences
    )


def test_gather_takes_whole_rows_in_paddle() -> None:
    found = p(X).gather(p([1, 0]), 0)
    assert to_numpy(found).shape == (2, 6)
    names = [n for row in table().rows_of("torch.gather") for n in row.names("paddle")]
    assert "paddle.take_along_axis" in names
    assert "paddle.gather" not in names


def test_layer_norm_refuses_a_large_epsilon_in_paddle() -> None:
    TF.layer_norm(t(X), [6], eps=0.01)
    with pytest.raises(Exception, match=r"(?i)epsilon"):
        PF.layer_norm(p(X), [6], epsilon=0.01)
    told = " ".join(s for row in table().rows_of("torch.nn.functional.layer_norm") for s in row.differences)
    assert "1e-3" in told or "0.001" in told


def test_a_tensor_made_of_a_parameter_has_no_gradient_in_paddle() -> None:
    weight = paddle.create_parameter([2], "float32")
    assert paddle.to_tensor(weight).stop_gradient
    assert any("gradient" in s for row in table().rows_of("paddle.to_tensor") for s in row.differences)


def test_clip_and_hardtanh_have_other_gradients_at_the_bounds() -> None:
    """Of each framework; a port that takes the one for the other is told so."""
    bounds = np.float32([0, 1])
    for grad, clip, hardtanh in (
        (torch_grad, torch.clamp, TF.hardtanh),
        (paddle_grad, paddle.clip, PF.hardtanh),
    ):
        assert to_numpy(grad(lambda x, f=clip: f(x, 0.0, 1.0), bounds)).tolist() == [1, 1]
        assert to_numpy(grad(lambda x, f=hardtanh: f(x, 0.0, 1.0), bounds)).tolist() == [0, 0]
    for name in ("torch.clamp", "torch.nn.functional.hardtanh"):
        assert any("bounds" in s for row in table().rows_of(name) for s in row.differences)
