"""Comparison through random calls: same draws on both sides, differences in meaning named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import torch
from paddle.nn import functional as P
from torch.nn import functional as F

import optrace

X = np.random.default_rng(0).standard_normal((4, 6, 8, 8)).astype("float32")


def _compare(base: Callable[[Any], Any], raw: Callable[[Any], Any]) -> Any:
    class Base(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return base(x)

    class Raw(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:
            return raw(x)

    return optrace.auto_diff(Base(), Raw(), {"x": X}, auto_init=False, train=True)


@pytest.mark.parametrize(
    ("base", "raw"),
    [
        (lambda x: F.dropout2d(x.tanh(), 0.3).exp(), lambda x: P.dropout(x.tanh(), 0.3, axis=[0, 1]).exp()),
        (
            lambda x: F.dropout2d(x.tanh(), 0.3).permute(0, 2, 3, 1).exp(),
            lambda x: P.dropout2d(x.tanh().transpose([0, 2, 3, 1]), 0.3, data_format="NHWC").exp(),
        ),
        (lambda x: F.alpha_dropout(x, 0.3, True).exp(), lambda x: P.alpha_dropout(x, 0.3).exp()),
        (
            lambda x: F.feature_alpha_dropout(x.tanh(), 0.3, True).exp(),
            lambda x: P.feature_alpha_dropout(x.tanh(), 0.3).exp(),
        ),
        (
            lambda x: (F.dropout(x.tanh(), 0.3) + x).exp(),
            lambda x: paddle.incubate.nn.functional.fused_dropout_add(x.tanh(), x, p=0.3).exp(),
        ),
        (
            lambda x: x[:, torch.multinomial(torch.ones(6), 6)].exp(),
            lambda x: paddle.index_select(x, paddle.multinomial(paddle.ones([6]), 6), 1).exp(),
        ),
        (lambda x: F.rrelu(x, training=True).exp(), lambda x: P.rrelu(x).exp()),
        (lambda x: x + torch.rand_like(x), lambda x: x + paddle.rand(x.shape)),
        (lambda x: x + x.tanh().normal_(0, 0.5), lambda x: x + x.tanh().normal_(0, 0.5)),
    ],
)
def test_aligned(base: Callable[[Any], Any], raw: Callable[[Any], Any]) -> None:
    report = _compare(base, raw)
    assert report, str(report)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"p": 0.5}, "p"),
        ({"p": 0.3, "mode": "downscale_in_infer"}, "mode"),
        ({"p": 0.3, "axis": [0, 1]}, "axis"),
    ],
)
def test_a_difference_in_meaning_is_named(options: dict[str, Any], argument: str) -> None:
    report = _compare(
        lambda x: F.dropout(x.tanh(), 0.3).exp(), lambda x: P.dropout(x.tanh(), **options).exp()
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", argument)]


def test_an_extra_dropout_shifts_none_of_the_others() -> None:
    report = _compare(
        lambda x: F.dropout(x.relu().tanh(), 0.3).exp(),
        lambda x: P.dropout(P.dropout(P.relu(x), 0.3).tanh(), 0.3).exp(),
    )
    assert [f.kind for f in report.findings] == ["extra_op"]


def test_two_traces_of_their_own_are_compared_by_bases_draws() -> None:
    with optrace.trace(level="full") as base:
        torch.ones(4) * 2 + torch.randn(4)
    with optrace.trace(level="full") as raw:
        paddle.ones([4]) * 2 + paddle.randn([4])
    assert optrace.diff(base, raw)


@pytest.mark.parametrize(
    ("base", "raw"),
    [
        (lambda x: x + torch.empty_like(x).uniform_(-1, 1), lambda x: x + paddle.uniform(x.shape, min=-1.0)),
        (lambda x: x + torch.rand(x.shape), lambda x: x + paddle.uniform(x.shape, min=0.0)),
        (lambda x: x + torch.normal(0.0, 0.1, x.shape), lambda x: x + paddle.normal(0.0, 0.1, x.shape)),
        (
            lambda x: x * torch.randint(0, 9, x.shape),
            lambda x: x * paddle.randint(0, 9, x.shape).astype("float32"),
        ),
        (
            lambda x: x + torch.empty_like(x).exponential_(2.0),
            lambda x: x + paddle.empty_like(x).exponential_(2.0),
        ),
    ],
)
def test_samples_of_one_distribution_align(base: Callable[[Any], Any], raw: Callable[[Any], Any]) -> None:
    report = _compare(base, raw)
    assert report, str(report)


@pytest.mark.parametrize(
    ("base", "raw", "api"),
    [
        (
            lambda x: x + torch.rand(x.shape),
            lambda x: x + paddle.uniform(x.shape, min=-1.0),
            "paddle.uniform",
        ),
        (
            lambda x: x + torch.empty_like(x).normal_(0, 0.1),
            lambda x: x + paddle.normal(0.0, 0.2, x.shape),
            "paddle.normal",
        ),
        (
            lambda x: x * torch.randint(0, 9, x.shape),
            lambda x: x * paddle.randint(0, 5, x.shape).astype("float32"),
            None,
        ),
        (
            lambda x: F.rrelu(x, 0.1, 0.3, training=True),
            lambda x: P.rrelu(x, 0.1, 0.4),
            "paddle.nn.functional.rrelu",
        ),
    ],
)
def test_another_distribution_is_a_finding(
    base: Callable[[Any], Any], raw: Callable[[Any], Any], api: str | None
) -> None:
    report = _compare(base, raw)
    assert len(report.findings) == 1, str(report)
    found = report.findings[0].raw
    assert found is not None and (api is None or found.api == api)


def test_dropping_elements_is_not_dropping_channels() -> None:
    report = _compare(lambda x: F.dropout2d(x.tanh(), 0.3).exp(), lambda x: P.dropout(x.tanh(), 0.3).exp())
    assert [f.raw.api for f in report.findings if f.raw] == ["paddle.nn.functional.dropout"]


def test_a_missing_dropout_is_told_as_missing() -> None:
    report = _compare(lambda x: F.dropout(x.tanh(), 0.3).exp(), lambda x: x.tanh().exp())
    assert [f.kind for f in report.findings] == ["missing_op"]


def test_a_bug_behind_a_dropout_is_found_alone() -> None:
    report = _compare(lambda x: F.dropout(x.tanh(), 0.3).sin(), lambda x: P.dropout(x.tanh(), 0.3).cos())
    assert [f.raw.api for f in report.findings if f.raw] == ["paddle.Tensor.cos"]


@pytest.mark.parametrize(
    ("given", "argument"), [({"p": 0.3, "training": False}, "training"), ({"p": 0.0}, "p")]
)
@pytest.mark.parametrize("idle_is_raw", [True, False])
def test_a_dropout_switched_off_on_one_side_is_told_by_its_argument(
    given: dict[str, Any], argument: str, idle_is_raw: bool
) -> None:
    drops, idles = {"p": 0.3}, given
    if not idle_is_raw:
        drops, idles = idles, drops
    report = _compare(
        lambda x: F.dropout(x.tanh(), **drops).exp(), lambda x: P.dropout(x.tanh(), **idles).exp()
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", argument)], str(report)
    raw = report.findings[0].raw
    assert raw is not None and raw.api == "paddle.nn.functional.dropout"


def test_memory_that_a_draw_is_written_to_is_no_cause() -> None:
    report = _compare(
        lambda x: (x + torch.empty_like(x).normal_(0, 0.1)).tanh(),
        lambda x: (x + paddle.empty_like(x).normal_(0, 0.2)).tanh(),
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", "std")], str(report)


@pytest.mark.parametrize(("theirs", "own"), [(0.5, 0.7), (0.7, 0.5)])
def test_a_bernoulli_mask_of_another_p_is_told_by_its_p(theirs: float, own: float) -> None:
    report = _compare(
        lambda x: (x * torch.empty_like(x).bernoulli_(theirs)).tanh(),
        lambda x: (x * paddle.empty_like(x).bernoulli_(own)).tanh(),
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", "p")], str(report)
    raw = report.findings[0].raw
    assert raw is not None and raw.api == "paddle.Tensor.bernoulli_"


@pytest.mark.parametrize(
    ("base", "raw"),
    [
        (
            lambda x: F.dropout(x, 0.3).tanh(),
            lambda x: (x * paddle.empty_like(x).bernoulli_(0.7) / 0.7).tanh(),
        ),
        (
            lambda x: (x * torch.empty_like(x).bernoulli_(0.7) / 0.7).tanh(),
            lambda x: P.dropout(x, 0.3).tanh(),
        ),
        (
            lambda x: (x * torch.bernoulli(torch.full_like(x, 0.7))).tanh(),
            lambda x: (x * paddle.empty_like(x).bernoulli_(0.7)).tanh(),
        ),
    ],
)
def test_a_bernoulli_mask_stands_for_a_dropout(base: Callable[[Any], Any], raw: Callable[[Any], Any]) -> None:
    report = _compare(base, raw)
    assert report, str(report)
