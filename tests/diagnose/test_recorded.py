"""Traces without values: fingerprints alone keep silent on a right port and name the first wrong call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
import torch

from optrace.api import diff
from optrace.diagnose.run import run_model
from optrace.errors import ComparisonError
from optrace.report.model import Report
from tests.diagnose.test_mistakes import Base, Raw, carry_over, over_queries, relu_instead, swapped

X = {"x": np.random.RandomState(3).randn(2, 3, 9).astype("float32")}


def compare(level: str = "stats", **change: Callable[..., Any]) -> Report:
    base, raw = Base(), Raw(**change)
    carry_over(base, raw)
    return diff(run_model(base, X, level=level), run_model(raw, X, level=level))


def test_a_right_port_is_aligned() -> None:
    report = compare()
    assert report, report.findings
    assert report.evidence.compared > 8


@pytest.mark.parametrize(
    ("step", "mistake", "api"),
    [
        ("softmax", over_queries, "paddle.nn.functional.softmax"),
        ("join", swapped, "paddle.concat"),
        ("act", relu_instead, "paddle.nn.functional.relu"),
    ],
)
def test_the_first_wrong_call_is_named(step: str, mistake: Callable[..., Any], api: str) -> None:
    first = compare(**{step: mistake}).first
    assert first is not None and first.raw is not None
    assert first.raw.api == api, first.message


def test_traces_without_numbers_can_not_be_judged() -> None:
    with pytest.raises(ComparisonError, match="stats"):
        compare("meta")


def test_the_tolerances_given_replace_those_of_rounding() -> None:
    pair = run_model(Base(), X, level="stats"), run_model(Raw(), X, level="stats")
    assert not diff(*pair)
    assert diff(*pair, rtol=10.0)
    assert diff(*pair, atol=100.0)


def test_a_tolerance_may_be_narrower_than_rounding() -> None:
    base, raw = Base(), Raw()
    carry_over(base, raw)
    pair = run_model(base, X, level="stats"), run_model(raw, X, level="stats")
    assert diff(*pair)
    assert not diff(*pair, rtol=0.0)


class Noisy(torch.nn.Module):
    """Something random between two computing steps; ``then`` is what is done with it."""

    def __init__(self, noise: Callable[[Any], Any], then: Callable[[Any], Any]) -> None:
        super().__init__()
        self.noise, self.then = noise, then

    def forward(self, x: Any) -> Any:
        return self.then(x.tanh() + self.noise(x))


class NoisyPort(paddle.nn.Layer):
    def __init__(self, noise: Callable[[Any], Any], then: Callable[[Any], Any]) -> None:
        super().__init__()
        self.noise, self.then = noise, then

    def forward(self, x: Any) -> Any:
        return self.then(x.tanh() + self.noise(x))


def drawn(base: Callable[[Any], Any], raw: Callable[[Any], Any], then: Callable[[Any], Any]) -> Report:
    torch.manual_seed(0)
    paddle.seed(1)
    left = run_model(Noisy(base, lambda y: torch.nn.functional.softmax(y, -1)), X, train=None, level="stats")
    return diff(left, run_model(NoisyPort(raw, then), X, train=None, level="stats"))


def softmax(y: Any) -> Any:
    return paddle.nn.functional.softmax(y, -1)


@pytest.mark.parametrize(
    ("base", "raw"),
    [
        (lambda x: torch.nn.functional.dropout(x, 0.3), lambda x: paddle.nn.functional.dropout(x, 0.3)),
        (torch.randn_like, lambda x: paddle.randn(x.shape)),
        (
            lambda x: x * (torch.rand_like(x) < 0.5),
            lambda x: x * (paddle.rand(x.shape) < 0.5).astype(x.dtype),
        ),
    ],
)
def test_draws_that_were_not_shared_are_no_finding(
    base: Callable[[Any], Any], raw: Callable[[Any], Any]
) -> None:
    report = drawn(base, raw, softmax)
    assert report, report.findings
    assert report.evidence.beyond and "drew" in next(iter(report.evidence.beyond_reasons))


def test_another_share_is_a_finding_even_if_the_draws_were_not_shared() -> None:
    report = drawn(
        lambda x: torch.nn.functional.dropout(x, 0.3), lambda x: paddle.nn.functional.dropout(x, 0.6), softmax
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", "p")]


def test_a_draw_on_one_side_only_is_a_finding() -> None:
    report = drawn(lambda x: x * 2, lambda x: paddle.nn.functional.dropout(x * 2, 0.5), softmax)
    assert [f.kind for f in report.findings] == ["random"], report.findings


def test_an_argument_behind_a_draw_is_still_a_finding() -> None:
    report = drawn(
        torch.randn_like, lambda x: paddle.randn(x.shape), lambda y: paddle.nn.functional.softmax(y, 1)
    )
    assert [(f.kind, f.argument) for f in report.findings] == [("argument", "dim")], report.findings
