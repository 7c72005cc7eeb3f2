"""The terminal report says all that a person needs, fits its width, and lets nothing hostile through."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from optrace.report.model import Report
from optrace.report.terminal import render
from optrace.report.text import clean, number, path

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_verdict_comes_first(bad: Report, good: Report) -> None:
    assert render(bad, color=False).splitlines()[0] == "NOT ALIGNED: 2 causes found"
    assert render(good, color=False).splitlines()[0] == "ALIGNED: no difference found"


def test_what_could_not_be_compared_is_in_the_verdict(good: Report) -> None:
    good.evidence.beyond = 2
    assert render(good, color=False).splitlines()[0] == (
        "ALIGNED in all that could be compared (2 calls could not)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "1. argument epsilon of paddle.nn.functional.layer_norm",
        "torch.nn.functional.layer_norm  eps = 1e-05",
        "paddle.nn.functional.layer_norm  epsilon = 1e-06",
        "encoder.0.norm (LayerNorm)",
        ":3 in Block.forward",
        "> return self.norm(x)",
        "max 0.25, max relative inf, relative L2 3.1e-05, 1234 ulp",
        "as the runs showed (one NaN):",
        "12 later calls affected; reaches the output",
        "in 3 runs of this line",
        "pass epsilon=1e-05",
        "2. a call is missing: torch.nn.functional.layer_norm [loss] [step 2]",
        "no counterpart",
        "scale written otherwise (2 times)",
        "19 calls of raw: 10 compared one to one, 4 inside groups, 2 without counterpart",
        "18 calls of base: 1 without counterpart",
        "beyond comparison, 3: sparse",
        "torch 1.2.3",
        "paddle 1.2.3",
    ],
)
def test_a_finding_is_told_in_full(bad: Report, text: str) -> None:
    assert text in re.sub(r"\s+", " ", render(bad, color=False, width=200)) or text in render(
        bad, color=False, width=200
    )


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("kind", ["bad", "good", "hostile"])
def test_lines_fit(kind: str, width: int, request: pytest.FixtureRequest) -> None:
    report = request.getfixturevalue(kind)
    for color in (False, True):
        for line in ANSI.sub("", render(report, color=color, width=width)).splitlines():
            assert cell_len(line) <= width, line


def test_colour_changes_nothing_but_colour(bad: Report) -> None:
    plain, coloured = render(bad, color=False), render(bad, color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == plain.splitlines()


def test_hostile_text_is_spelled_out(hostile: Report) -> None:
    shown = render(hostile, color=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "\\x1b" in shown
    assert "\\u202e" in shown
    assert "[bold]" in shown
    assert "long" * 120 not in shown.replace("\n", "").replace(" ", "")


def test_print_shows_the_report_without_escapes(bad: Report) -> None:
    assert str(bad) == render(bad, color=False)


def test_many_warnings_are_cut(good: Report, bad: Report) -> None:
    one = bad.warnings[0]
    good.warnings = [type(one)(f"warning {i}", raw=one.raw) for i in range(30)]
    assert "and 20 more" in render(good, color=False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (12.0, "12"),
        (0.25, "0.25"),
        (3.1e-5, "3.1e-05"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_clean_keeps_ordinary_text() -> None:
    assert clean("größe = 1, 形状") == "größe = 1, 形状"
    assert clean("a\tb\ud800") == "a\\x09b\\ud800"


def test_paths_are_short() -> None:
    assert path("/x/lib/python3.11/site-packages/transformers/models/a.py") == "transformers/models/a.py"
    assert path("/elsewhere/model.py") == "/elsewhere/model.py"


def test_figures_that_are_not_known_are_left_out(bad: Report) -> None:
    shown = render(bad, color=False, width=120)
    assert "max relative 0.5, relative L2 0.1, 9 ulp" in shown
    assert "max nan" not in shown
