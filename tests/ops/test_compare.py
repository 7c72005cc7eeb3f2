"""Which arguments of two calls mean something else, and that equal meanings stay silent."""

from __future__ import annotations

from typing import Any

import pytest
from execution import carried, example

from optrace import ops
from optrace.ops.schema import Row
from optrace.ops.table import table
from optrace.trace.records import DtypeRef, TensorRef

F, PF = "torch.nn.functional.", "paddle.nn.functional."


def tensor(*shape: int) -> TensorRef:
    return TensorRef(uid=len(shape), version=0, shape=shape, dtype="float32")


def compared(
    base: str, base_args: tuple, raw: str, raw_args: tuple, **options: Any
) -> dict[str, tuple[Any, Any]]:
    """Differences by name; the last item of each tuple may be a dict of keywords."""
    sides = []
    for api, args in ((base, base_args), (raw, raw_args)):
        keyword = args[-1] if args and isinstance(args[-1], dict) else {}
        positional = args[:-1] if keyword or (args and isinstance(args[-1], dict)) else args
        sides.append(ops.bind(api, list(positional), keyword))
    return {d.name: (d.base_value, d.raw_value) for d in ops.compare_arguments(base, sides[0], raw, sides[1])}


X = tensor(2, 3, 8, 8)
M = tensor(2, 3)
SAME = [
    (F + "softmax", (M, {"dim": 1}), PF + "softmax", (M,)),
    (F + "gelu", (M,), PF + "gelu", (M,)),
    (F + "gelu", (M, {"approximate": "tanh"}), PF + "gelu", (M, True)),
    (F + "gelu", (M, {"approximate": "tanh"}), "paddle._C_ops.gelu", (M, True)),
    ("torch.sum", (M, -1), "paddle.sum", (M, {"axis": 1})),
    ("torch.sum", (M, (0, 1)), "paddle.sum", (M,)),
    ("torch.Tensor.mean", (M, 1, True), "paddle.mean", (M, [1], True)),
    ("torch.transpose", (X, 1, 2), "paddle.transpose", (X, [0, 2, 1, 3])),
    ("torch.transpose", (X, 1, 2), "paddle.transpose", (X, 1, 2)),
    ("torch.Tensor.permute", (X, 0, 2, 3, 1), "paddle.transpose", (X, [0, 2, 3, 1])),
    ("torch.Tensor.t", (M,), "paddle.transpose", (M, [1, 0])),
    ("torch.Tensor.view", (X, 2, -1), "paddle.reshape", (X, [0, 192])),
    ("torch.flatten", (X, 1), "paddle.reshape", (X, [2, -1])),
    ("torch.flatten", (X, 1), "paddle.flatten", (X, 1, 3)),
    ("torch.Tensor.unsqueeze", (M, -1), "paddle.unsqueeze", (M, 2)),
    ("torch.split", (X, 4, 2), "paddle.split", (X, 2, 2)),
    ("torch.chunk", (X, 2, -1), "paddle.split", (X, [4, 4], 3)),
    ("torch.split", (X, [3, 5], 3), "paddle.split", (X, [3, -1], -1)),
    (F + "max_pool2d", (X, 2), PF + "max_pool2d", (X, 2, 2)),
    (F + "max_pool2d", (X, 3, 2, 1), PF + "max_pool2d", (X, [3, 3], [2, 2], [1, 1, 1, 1])),
    (F + "avg_pool2d", (X, 3, 2, 1), PF + "avg_pool2d", (X, 3, 2, 1, {"exclusive": False})),
    (F + "avg_pool2d", (X, 3, 2, 0), PF + "avg_pool2d", (X, 3, 2, 0)),
    (
        F + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, "same"),
        PF + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, "SAME"),
    ),
    (
        F + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, 1),
        PF + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, [1, 1, 1, 1]),
    ),
    (
        F + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, (1, 2)),
        PF + "conv2d",
        (X, tensor(4, 3, 3, 3), None, 1, [[0, 0], [0, 0], [1, 1], [2, 2]]),
    ),
    (F + "pad", (X, (1, 2, 0, 1)), PF + "pad", (X, [1, 2, 0, 1])),
    (F + "pad", (X, (1, 2)), PF + "pad", (X, [0, 0, 0, 0, 0, 0, 1, 2])),
    (F + "interpolate", (X, {"scale_factor": 2}), PF + "interpolate", (X, {"size": [16, 16]})),
    (F + "interpolate", (X, (16, 16), None, "bilinear"), PF + "interpolate", (X, [16, 16], None, "bilinear")),
    (
        F + "scaled_dot_product_attention",
        (tensor(2, 4, 5, 16),) * 3,
        PF + "scaled_dot_product_attention",
        (tensor(2, 5, 4, 16), tensor(2, 5, 4, 16), tensor(2, 5, 4, 16), {"scale": 0.25}),
    ),
    (F + "layer_norm", (M, (3,)), PF + "layer_norm", (M, 3)),
    (
        F + "batch_norm",
        (X, M, M, None, None, False, 0.1),
        PF + "batch_norm",
        (X, M, M, None, None, False, 0.9),
    ),
    (F + "dropout", (M, 0.1, False), PF + "dropout", (M, 0.1, {"training": False})),
    ("torch.arange", (5,), "paddle.arange", (0, 5)),
    ("torch.arange", (0, 5, 1), "paddle.arange", (5,)),
    ("torch.zeros", (2, 3), "paddle.zeros", ([2, 3],)),
    ("torch.zeros", ((2, 3), {"dtype": DtypeRef("int64")}), "paddle.zeros", ([2, 3], "int64")),
    ("torch.Tensor.__add__", (M, 2), "paddle.add", (M, 2.0)),
    ("torch.clamp", (M, 0), "paddle.clip", (M, 0.0)),
    ("torch.Tensor.__getitem__", (X, (slice(None), 0)), "paddle.Tensor.__getitem__", (X, (slice(0, 2), 0))),
    (
        "torch.Tensor.__getitem__",
        (X, (..., -1)),
        "paddle.Tensor.__getitem__",
        (X, (slice(None), slice(None), slice(None), 7)),
    ),
    ("torch.topk", (M, 2), "paddle.topk", (M, 2, 1)),
    ("torch.std", (M, 1), "paddle.std", (M, 1)),
    ("torch.std", (M, 1, False), "paddle.std", (M, 1, False)),
    ("torch.Tensor.repeat", (M, 2, 1), "paddle.tile", (M, [2, 1])),
    ("torch.Tensor.expand", (tensor(3, 1), -1, 4), "paddle.expand", (tensor(3, 1), [3, 4])),
    ("torch.cat", ([M, M], -1), "paddle.concat", ([M, M], 1)),
    ("torch.stack", ([M, M], -1), "paddle.stack", ([M, M], 2)),
    ("torch.matmul", (M, M), "paddle.matmul", (M, M, False, True)),
    ("torch.relu", (M,), F + "relu", (M,)),
    (F + "cross_entropy", (M, tensor(2)), PF + "cross_entropy", (M, tensor(2))),
    (F + "embedding", (tensor(2), M), PF + "embedding", (tensor(2), M)),
    (F + "leaky_relu", (M, 0.01), "paddle._C_ops.leaky_relu", (M, 0.009999999776482582)),
]


@pytest.mark.parametrize(("base", "base_args", "raw", "raw_args"), SAME)
def test_equal_meanings_are_silent(base: str, base_args: tuple, raw: str, raw_args: tuple) -> None:
    assert ops.same_job(base, raw)
    assert compared(base, base_args, raw, raw_args) == {}
    assert compared(raw, raw_args, base, base_args) == {}


OTHER = [
    (F + "softmax", (X, {"dim": 1}), PF + "softmax", (X,), {"dim": (1, -1)}),
    (F + "gelu", (M, {"approximate": "tanh"}), PF + "gelu", (M,), {"approximate": ("tanh", False)}),
    (F + "layer_norm", (M, (3,), None, None, 1e-12), PF + "layer_norm", (M, 3), {"eps": (1e-12, 1e-5)}),
    (F + "avg_pool2d", (X, 3, 2, 1), PF + "avg_pool2d", (X, 3, 2, 1), {"count_include_pad": (True, True)}),
    (F + "max_pool2d", (X, 3, 2, 1, 1, True), PF + "max_pool2d", (X, 3, 2, 1), {"ceil_mode": (True, False)}),
    (F + "grid_sample", (X, X), PF + "grid_sample", (X, X), {"align_corners": (None, True)}),
    (
        F + "interpolate",
        (X, (16, 16), None, "bilinear", True),
        PF + "interpolate",
        (X, [16, 16], None, "bilinear"),
        {"align_corners": (True, False)},
    ),
    (
        F + "interpolate",
        (X, {"scale_factor": 1.3}),
        PF + "interpolate",
        (X, {"size": [10, 10]}),
        {"scale_factor": (1.3, [10, 10])},
    ),
    ("torch.std", (M, 1, False), "paddle.std", (M, 1), {"unbiased": (False, True)}),
    ("torch.std", (M, {"dim": 1, "correction": 0}), "paddle.std", (M, 1), {"correction": (0, True)}),
    (F + "conv2d", (X, M, None, 2), PF + "conv2d", (X, M), {"stride": (2, 1)}),
    (F + "conv2d", (X, M, None, 1, 1, 2), PF + "conv2d", (X, M, None, 1, 1), {"dilation": (2, 1)}),
    (F + "conv2d", (X, M, None, 2, 1), PF + "conv2d", (X, M, None, 2, "SAME"), {"padding": (1, "SAME")}),
    ("torch.transpose", (X, 1, 2), "paddle.transpose", (X, [0, 1, 3, 2]), {"dim0": ((1, 2), [0, 1, 3, 2])}),
    ("torch.topk", (M, 2), "paddle.topk", (M, 2, {"largest": False}), {"largest": (True, False)}),
    ("torch.argsort", (M,), "paddle.argsort", (M, -1, True), {"descending": (False, True)}),
    (F + "hardsigmoid", (M,), PF + "hardsigmoid", (M, 0.2), {"slope": (1 / 6, 0.2)}),
    (
        F + "dropout",
        (M, 0.5),
        PF + "dropout",
        (M, 0.5, {"mode": "downscale_in_infer"}),
        {"mode": ("upscale_in_train", "downscale_in_infer")},
    ),
    (F + "dropout", (M, 0.5), PF + "dropout", (M, 0.1), {"p": (0.5, 0.1)}),
    (F + "leaky_relu", (M, 0.2), PF + "leaky_relu", (M,), {"negative_slope": (0.2, 0.01)}),
    (
        F + "smooth_l1_loss",
        (M, M, {"beta": 0.5}),
        PF + "smooth_l1_loss",
        (M, M),
        {"beta": (0.5, 1.0), "is_huber": (False, True)},
    ),
    ("torch.median", (M, 1), "paddle.median", (M, 1), {"mode": ("min", "avg")}),
    (
        "torch.Tensor.__getitem__",
        (X, (slice(None), 0)),
        "paddle.Tensor.__getitem__",
        (X, (slice(None), 1)),
        {"index": ((slice(None), 0), (slice(None), 1))},
    ),
    ("torch.clamp", (M, 0, 6), "paddle.clip", (M, 0, 5), {"max": (6, 5)}),
    (
        "torch.einsum",
        ("ij,jk->ik", M, M),
        "paddle.einsum",
        ("ij,jk->ki", M, M),
        {"equation": ("ij,jk->ik", "ij,jk->ki")},
    ),
    (F + "pad", (X, (1, 2, 0, 1)), PF + "pad", (X, [0, 1, 1, 2]), {"pad": ((1, 2, 0, 1), [0, 1, 1, 2])}),
    ("torch.roll", (M, 1, 0), "paddle.roll", (M, 1, 1), {"dims": (0, 1)}),
    (F + "normalize", (M, 2.0, 1), PF + "normalize", (M, 2, 0), {"dim": (1, 0)}),
    ("torch.masked_fill", (M, M, -1e9), "paddle.masked_fill", (M, M, -1e4), {"value": (-1e9, -1e4)}),
    ("torch.logsumexp", (M, 1), "paddle.logsumexp", (M, 0), {"dim": (1, 0)}),
    (
        "torch.Tensor.scatter_",
        (M, 0, M, M),
        "paddle.put_along_axis",
        (M, M, M, 0, "add"),
        {"reduce": ("assign", "add")},
    ),
]


@pytest.mark.parametrize(("base", "base_args", "raw", "raw_args", "expected"), OTHER)
def test_other_meanings_are_named(
    base: str, base_args: tuple, raw: str, raw_args: tuple, expected: dict
) -> None:
    assert compared(base, base_args, raw, raw_args) == expected


CASES = [
    pytest.param(row, i, id=f"{row.name}-{i}")
    for row in table().rows
    for i in range(len(row.examples))
    if row.torch and row.paddle
]


@pytest.mark.parametrize(("row", "index"), CASES)
def test_a_translated_call_means_the_same(row: Row, index: int) -> None:
    args = example(row, index)
    base = row.names("torch")[0]
    for raw in (row.names("paddle")[0], base):
        there = carried(row, args, base, raw)
        assert there is not None
        assert ops.compare_arguments(base, args, raw, there) == []
        assert ops.compare_arguments(raw, there, base, args) == []
