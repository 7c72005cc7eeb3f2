"""The table knows every public tensor name, knows none that does not exist, and executes most."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

from execution import function  # noqa: E402
from public_names import THIS, WRITTEN_FOR, paddle_names, torch_names  # noqa: E402

from optrace import ops  # noqa: E402
from optrace.ops.stats import executed_name  # noqa: E402
from optrace.ops.table import table  # noqa: E402

NAMES = {"torch": sorted(set(torch_names())), "paddle": sorted(set(paddle_names()))}


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_every_public_name_is_known(framework: str) -> None:
    if THIS[framework] != WRITTEN_FOR[framework]:
        pytest.skip(f"{framework} {THIS[framework]}: the table was written for {WRITTEN_FOR[framework]}")
    unknown = [name for name in NAMES[framework] if ops.lookup(name) is None]
    assert unknown == []


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_every_name_of_the_table_exists(framework: str) -> None:
    if THIS[framework] != WRITTEN_FOR[framework]:
        pytest.skip(f"{framework} {THIS[framework]}: the table was written for {WRITTEN_FOR[framework]}")
    missing = []
    for row in table().rows:
        for name in row.names(framework):
            if "*" in name or not name.startswith(framework + "."):
                continue
            try:
                function(name)
            except (AttributeError, ImportError):
                missing.append(name)
    assert missing == []


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_names_with_a_counterpart_are_in_executed_rows(framework: str) -> None:
    """All of them: random, sparse and inner ones, too."""
    if THIS[framework] != WRITTEN_FOR[framework]:
        pytest.skip(f"{framework} {THIS[framework]}: the table was written for {WRITTEN_FOR[framework]}")
    paired = {n: [r for r in table().rows_of(n) if r.torch and r.paddle] for n in NAMES[framework]}
    counted = {name: rows for name, rows in paired.items() if rows}
    executed = [name for name, rows in counted.items() if any(executed_name(r, name) for r in rows)]
    assert len(executed) / len(counted) >= 0.95, sorted(set(counted) - set(executed))


def test_every_row_without_a_counterpart_says_so() -> None:
    assert [row.name for row in table().rows if not (row.torch and row.paddle) and not row.reason] == []
