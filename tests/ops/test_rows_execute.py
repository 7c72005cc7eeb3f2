"""Every row is run: both sides on the recipe's inputs, forward and backward, and every other name of it."""

from __future__ import annotations

import msgspec
import pytest
from execution import carried, check, differentiable, example, here

from optrace.ops.schema import Row
from optrace.ops.signature import C_LEVEL
from optrace.ops.table import table

pytest.importorskip("torch")
pytest.importorskip("paddle")

from public_names import THIS, WRITTEN_FOR

ROWS = [row for row in table().rows if row.examples and row.torch and row.paddle]
CASES = [pytest.param(row, i, id=f"{row.name}-{i}") for row in ROWS for i in range(len(row.examples))]
VALUES = (": values", ": shapes", ": truth", " results and ")


@pytest.mark.parametrize(("row", "index"), CASES)
def test_both_sides_agree(row: Row, index: int) -> None:
    base, raw = row.names("torch")[0], row.names("paddle")[0]
    if not (here(base) and here(raw)):
        pytest.skip(f"{base if not here(base) else raw} is not in this version")
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
            if api in row.unexecuted or not here(api):
                continue
            if api.startswith(C_LEVEL) and THIS[framework] != WRITTEN_FOR[framework]:
                continue  # inner names take other arguments in other versions, and may end the process
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


ELEMENTWISE = [
    row
    for row in ROWS
    if row.file.endswith(("math.toml", "activation.toml"))
    and not row.meaning
    and row.kind == "compute"
    and all(isinstance(v, str) and "[2,3]" in v for v in row.examples[0].values())
    and here(row.names("torch")[0])
    and here(row.names("paddle")[0])
]
# Scans, and calls that want an axis or a matrix, have no element-wise form.
NOT_ELEMENTWISE = ("cum", "logcum", "glu", "softmax", "log_softmax", "gumbel", "diff", "maxout", "swiglu")
SHAPES = {"empty": "[0]", "0-d": "[]", "4-d": "[2,1,3,2]"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ELEMENTWISE])
def test_other_shapes(row: Row, shape: str) -> None:
    if row.name.startswith(NOT_ELEMENTWISE):
        pytest.skip("not element-wise")
    recipes = {k: v.replace("[2,3]", SHAPES[shape]) for k, v in row.examples[0].items()}
    other = msgspec.structs.replace(row, examples=[recipes])
    base, raw = row.names("torch")[0], row.names("paddle")[0]
    assert check(row, 0, base, raw, example(other, 0), False) == ""


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ELEMENTWISE])
def test_float64(row: Row) -> None:
    recipes = {k: v.replace("float[", "double[") for k, v in row.examples[0].items()}
    other = msgspec.structs.replace(row, examples=[recipes])
    base, raw = row.names("torch")[0], row.names("paddle")[0]
    assert check(row, 0, base, raw, example(other, 0), False) == ""
