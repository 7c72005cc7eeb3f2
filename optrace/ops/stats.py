"""How much the table holds."""

from __future__ import annotations

import msgspec

from optrace.ops.table import table


class Stats(msgspec.Struct, frozen=True):
    """Counts of rows and of names; ``executed`` rows are run by the tests on both sides."""

    rows: int
    paired: int
    executed: int
    with_gradients: int
    examples: int
    expansions: int
    differences: int
    torch_names: int
    paddle_names: int
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
        torch_names=len({n for r in rows for n in r.names("torch")}),
        paddle_names=len({n for r in rows for n in r.names("paddle")}),
        unexecuted=dict(sorted(reasons.items(), key=lambda item: -item[1])),
    )
