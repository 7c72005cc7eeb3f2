"""Every row is run: both sides on the recipe's inputs, forward and backward, and every other name of it."""

from __future__ import annotations

import pytest
from execution import carried, check, differentiable, example

from optrace.ops.schema import Row
from optrace.ops.table import table

pytest.importorskip("torch")
pytest.importorskip("paddle")

ROWS = [row for row in table().rows if row.examples and row.torch and row.paddle]
CASES = [pytest.param(row, i, id=f"{row.name}-{i}") for row in ROWS for i in range(len(row.examples))]
VALUES = (": values", ": shapes", ": truth", " results and ")


@pytest.mark.parametrize(("row", "index"), CASES)
def test_both_sides_agree(row: Row, index: int) -> None:
    base, raw = row.names("torch")[0], row.names("paddle")[0]
    args = example(row, index)
    assert check(row, index, base, raw, args, False) == ""
    if differentiable(row, index):
        assert check(row, index, base, raw, args, True) == ""


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ROWS])
def test_other_names_agree_with_the_first(row: Row) -> None:
    """A name need not take every example, but it has to take one, and never give other numbers."""
    for framework in ("torch", "paddle"):
        first, *others = row.names(framework)
        for api in others:
            if api in row.unexecuted:
                continue
            problems = [_try(row, i, framework, first, api) for i in range(len(row.examples))]
            wrong = [p for p in problems if any(v in p for v in VALUES)]
            assert not wrong, f"{api}: {wrong[0]}"
            assert "" in problems, f"{api} took no example: {problems[0]}"


def _try(row: Row, index: int, framework: str, first: str, api: str) -> str:
    args = example(row, index)
    if framework == "paddle":
        there = carried(row, args, row.names("torch")[0], first)
        assert there is not None
        args = there
    try:
        return check(row, index, first, api, args, False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_rows_without_examples_say_why() -> None:
    silent = [
        row.name for row in table().rows if not (row.examples and row.torch and row.paddle) and not row.reason
    ]
    assert silent == []
