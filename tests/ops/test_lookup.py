"""Questions by name."""

from __future__ import annotations

import pytest

from optrace import ops


@pytest.mark.parametrize(
    ("torch_name", "paddle_name"),
    [
        ("torch.nn.functional.gelu", "paddle.nn.functional.gelu"),
        ("torch.Tensor.__matmul__", "paddle.matmul"),
        ("torch.cat", "paddle.concat"),
        ("torch.gather", "paddle.take_along_axis"),
        ("torch.index_select", "paddle.gather"),
        ("torch.Tensor.scatter_", "paddle.put_along_axis"),
        ("torch.Tensor.view", "paddle.reshape"),
        ("torch.Tensor.permute", "paddle.transpose"),
        ("torch.max", "paddle.maximum"),
        ("torch.max", "paddle.max"),
        ("torch.clamp_min", "paddle.clip"),
        ("torch.fft.rfftn", "paddle.fft.rfftn"),
        ("torch.linalg.solve", "paddle.linalg.solve"),
        ("torch.Tensor.masked_fill_", "paddle.Tensor.masked_fill"),
        ("torch.nn.Conv2d", "paddle.nn.Conv2D"),
        ("torch.Tensor.softmax", "paddle.nn.functional.softmax"),
    ],
)
def test_same_job(torch_name: str, paddle_name: str) -> None:
    assert ops.same_job(torch_name, paddle_name)
    assert ops.same_job(paddle_name, torch_name)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("torch.gather", "paddle.gather"),
        ("torch.sin", "paddle.cos"),
        ("torch.relu", "paddle.nn.functional.gelu"),
        ("nobody.knows", "paddle.abs"),
    ],
)
def test_other_job(a: str, b: str) -> None:
    assert not ops.same_job(a, b)


def test_equivalents_answer_both_ways() -> None:
    assert ops.equivalents("torch.nn.functional.gelu")[0] == "paddle.nn.functional.gelu"
    assert "torch.nn.functional.gelu" in ops.equivalents("paddle._C_ops.gelu")
    assert ops.equivalents("nobody.knows") == ()
    assert ops.same_job("nobody.knows", "nobody.knows")


@pytest.mark.parametrize(
    ("defined", "other"),
    [
        ("torch.nn.modules.linear.Linear", "paddle.nn.Linear"),
        ("torch.nn.modules.Conv2d", "paddle.nn.Conv2D"),
        ("torch.optim.adamw.AdamW", "paddle.optimizer.AdamW"),
        ("torch.distributions.normal.Normal", "paddle.distribution.Normal"),
        ("torch.utils.data.dataloader.DataLoader", "paddle.io.DataLoader"),
        ("paddle.nn.layer.norm.BatchNorm2D", "torch.nn.BatchNorm2d"),
        ("paddle.tensor.math.add", "torch.add"),
        ("paddle.tensor.linalg.svd", "torch.linalg.svd"),
        ("paddle.nn.functional.activation.gelu", "torch.nn.functional.gelu"),
        ("paddle.nn.initializer.constant.Constant", "torch.nn.init.constant_"),
    ],
)
def test_names_of_the_defining_module(defined: str, other: str) -> None:
    assert other in ops.equivalents(defined)
    assert ops.same_job(defined, other)


def test_a_module_below_another_package_is_not_the_public_one() -> None:
    assert ops.equivalents("torch.ao.nn.quantized.Linear") == ()
    assert ops.equivalents("torch.nn.quantized.Linear") == ()
    assert ops.equivalents("paddle.nonsense.math.add") == ()


def test_random_ops() -> None:
    drawing = ops.random_ops("torch")
    assert {"torch.rand", "torch.nn.functional.dropout", "torch.Tensor.normal_", "torch.randperm"} <= drawing
    assert "torch.nn.functional.scaled_dot_product_attention" in drawing
    assert "torch.nn.functional.softmax" not in drawing
    assert {"paddle.randn", "paddle._C_ops.gaussian", "paddle.Tensor.uniform_"} <= ops.random_ops("paddle")


def test_kinds_and_differences() -> None:
    row = ops.lookup("paddle.split")
    assert row is not None
    assert row.kind == "move"
    assert row.differences
    assert "torch.split" in row.names("torch")


def test_known_backward_kernels() -> None:
    row = ops.lookup("paddle._C_ops.matmul_grad")
    assert row is not None
    assert row.reason


def test_a_wrong_argument_can_be_set_right() -> None:
    right = ops.translate(
        "torch.nn.functional.avg_pool2d", {"kernel_size": 3, "padding": 1}, "paddle.nn.functional.avg_pool2d"
    )
    assert right is not None
    assert (right["exclusive"], right["padding"]) == (False, 1)
    assert ops.translate("torch.sin", {}, "nobody.knows") is None


def test_scatter_that_should_add() -> None:
    found = ops.compare_arguments("torch.Tensor.index_add", {"dim": 0}, "paddle.scatter", {})
    assert [(d.raw_name, d.raw_value, d.base_value) for d in found] == [("overwrite", True, False)]
