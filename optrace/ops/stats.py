"""How much the table holds."""

from __future__ import annotations

import msgspec

from optrace.ops.schema import Row
from optrace.ops.table import table


class Names(msgspec.Struct, frozen=True):
    """Counts of one framework's names; ``counterparts`` leaves out classes and what is no tensor call."""

    all: int
    counterparts: int
    executed: int
    with_gradients: int


class Stats(msgspec.Struct, frozen=True):
    """Counts of rows and of names; ``executed`` rows are run by the tests on both sides."""

    rows: int
    paired: int
    executed: int
    with_gradients: int
    examples: int
    expansions: int
    differences: int
    torch: Names
    paddle: Names
    unexecuted: dict[str, int]


def statistics() -> Stats:
    """Counts over the loaded table; ``unexecuted`` says how many paired rows are not run, by reason."""
    rows = table().rows
    paired = [r for r in rows if r.torch and r.paddle]
    executed = [r for r in paired if r.examples]
    reasons: dict[str, int] = {}
    for row in paired:
        if not row.examples:
            reasons[row.reason] = reasons.get(row.reason, 0) + 1
    return Stats(
        rows=len(rows),
        paired=len(paired),
        executed=len(executed),
        with_gradients=sum(r.grad for r in executed),
        examples=sum(len(r.examples) for r in executed),
        expansions=sum(bool(r.expansion.torch) + bool(r.expansion.paddle) for r in rows),
        differences=sum(len(r.differences) for r in rows),
        torch=_names("torch"),
        paddle=_names("paddle"),
        unexecuted=dict(sorted(reasons.items(), key=lambda item: -item[1])),
    )


def _names(framework: str) -> Names:
    rows = table().rows
    tensor_calls = [r for r in rows if r.torch and r.paddle and r.kind != "composite"]
    run = [(name, row) for row in tensor_calls for name in row.names(framework) if executed_name(row, name)]
    return Names(
        all=len({n for r in rows for n in r.names(framework)}),
        counterparts=len({n for r in tensor_calls for n in r.names(framework)}),
        executed=len({name for name, _ in run}),
        with_gradients=len({name for name, row in run if row.grad}),
    )


def executed_name(row: Row, name: str) -> bool:
    """Whether the tests run ``name``, one of the row's, against the other side."""
    return bool(row.torch and row.paddle and row.examples) and name not in row.unexecuted
