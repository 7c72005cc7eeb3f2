"""Traces without values: fingerprints alone keep silent on a right port and name the first wrong call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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
