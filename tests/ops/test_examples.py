"""The example calls that ``optrace ops NAME`` shows can be run, and give the same on both sides."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from execution import by_distribution, close, flat, here, to_numpy

from optrace.ops.examples import example_of
from optrace.ops.schema import Row
from optrace.ops.table import table

pytest.importorskip("torch")
pytest.importorskip("paddle")

ROWS = [pytest.param(row, id=row.name) for row in table().rows if example_of(row) is not None]


def results(row: Row, side: str, inputs: list[str], call: str) -> list[np.ndarray]:
    space: dict[str, Any] = {"np": np, "rng": np.random.default_rng(0)}
    space[side] = importlib.import_module(side)
    for line in inputs:
        exec(line, space)
    package = call.partition(".")[0]
    space.setdefault(package, importlib.import_module(package))
    found = [to_numpy(o) for o in flat(eval(call, space))]
    chosen = getattr(row.results, side)
    found = [found[i] for i in chosen] if chosen and len(found) > 1 else found
    order = row.layout.get("out") if side == "paddle" else None
    return [np.transpose(a, np.argsort(order)) for a in found] if order else found


@pytest.mark.parametrize("row", ROWS)
def test_the_shown_example_runs_on_both_sides(row: Row) -> None:
    missing = [n for n in (row.names("torch")[0], row.names("paddle")[0]) if not here(n)]
    if missing:
        pytest.skip(f"{missing[0]} is not in this version")
    shown = example_of(row)
    assert shown is not None
    left = results(row, "torch", shown.inputs, shown.torch)
    right = results(row, "paddle", shown.inputs, shown.paddle)
    if row.inplace and not right:
        return  # paddle.nn.init's functions return nothing; test_rows_execute.py looks at the tensor
    same = shaped if by_distribution(row, 0) else close
    assert [same(a, b, row.tolerance) for a, b in zip(left, right)] == [""] * max(len(left), len(right))


def shaped(a: np.ndarray, b: np.ndarray, _: float) -> str:
    """What is shown of random draws is only how they look: test_rows_execute.py compares them."""
    return "" if a.shape == b.shape else f"{a.shape} and {b.shape}"


def test_every_executed_row_has_an_example_to_show() -> None:
    executed = [r for r in table().rows if r.examples and r.torch and r.paddle]
    assert [r.name for r in executed if example_of(r) is None] == []
