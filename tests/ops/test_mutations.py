"""A wrong name, a wrong argument mapping, a wrong default make a test fail."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from execution import check, example, here
from test_defaults import actual, wrong

from optrace.ops.schema import Row
from optrace.ops.signature import parse
from optrace.ops.table import Table, table

pytest.importorskip("torch")
pytest.importorskip("paddle")

ROWS = [
    r
    for r in table().rows
    if r.examples and r.torch and r.paddle and not r.meaning and "_C_ops" not in r.paddle[0]
    if here(r.names("torch")[0]) and here(r.names("paddle")[0])
]
RANDOM = random.Random(3)


def caught(row: Row, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether running the row's examples shows that something is wrong with it."""
    monkeypatch.setattr("optrace.ops.table._loaded", Table([row]))
    try:
        return any(
            check(row, i, row.names("torch")[0], row.names("paddle")[0], example(row, i), False)
            for i in range(len(row.examples))
        )
    except Exception:
        return True


def sample(rows: list[Row], number: int) -> list[Any]:
    return [pytest.param(r, id=r.name) for r in RANDOM.sample(rows, min(number, len(rows)))]


def elementwise(row: Row) -> bool:
    return row.file.endswith("math.toml") and len(row.examples[0]) == 1 and row.grad


@pytest.mark.parametrize("row", sample([r for r in ROWS if elementwise(r)], 12))
def test_a_wrong_name(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "paddle.sin(x)" if row.name != "sin" else "paddle.cos(x)"
    assert caught(msgspec.structs.replace(row, paddle=[other], args={"input": "x"}), monkeypatch)


def used(row: Row) -> list[str]:
    """Mapped arguments that an example gives."""
    return [n for n in row.args if any(n in e for e in row.examples)]


@pytest.mark.parametrize("row", sample([r for r in ROWS if used(r)], 30))
def test_a_wrong_argument_name(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    name = RANDOM.choice(used(row))
    assert caught(msgspec.structs.replace(row, args={**row.args, name: "nonsense"}), monkeypatch)


@pytest.mark.parametrize(
    "row",
    sample(
        [
            r
            for r in ROWS
            if len(used(r)) > 1
            and r.name.startswith(("sub", "gather", "diag", "softshrink", "index_add", "scatter"))
        ],
        10,
    ),
)
def test_swapped_arguments(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = used(row)[:2]
    assert caught(
        msgspec.structs.replace(row, args={**row.args, a: row.args[b], b: row.args[a]}), monkeypatch
    )


def with_defaults(row: Row) -> bool:
    return any(wrong_default(row))


def wrong_default(row: Row) -> list[str]:
    """The row's paddle signature with one default changed, for each default that the framework tells."""
    signature = parse(row.paddle[0])
    told = {name for overload in actual(signature.api) for name in overload}
    changed = []
    for p in signature.parameters:
        if p.name in told and isinstance(p.default, (bool, int, float)) and p.name != "dtype":
            flipped = not p.default if isinstance(p.default, bool) else p.default + 1
            changed.append(row.paddle[0].replace(f"{p.name}={p.default!r}", f"{p.name}={flipped!r}"))
    return [c for c in changed if c != row.paddle[0]]


@pytest.mark.parametrize("row", sample([r for r in ROWS if with_defaults(r)], 30))
def test_a_wrong_default(row: Row) -> None:
    signature = parse(RANDOM.choice(wrong_default(row)))
    assert wrong(signature, actual(signature.api))
