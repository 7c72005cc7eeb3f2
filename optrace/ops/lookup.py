"""Questions to the table that take names only."""

from __future__ import annotations

from optrace.ops.schema import Row
from optrace.ops.table import table


def lookup(api: str) -> Row | None:
    """The first row that holds ``api`` on either side."""
    rows = table().rows_of(api)
    return rows[0] if rows else None


def equivalents(api: str) -> tuple[str, ...]:
    """The other framework's names for the job of ``api``, the canonical ones first."""
    found: dict[str, None] = {}
    late: dict[str, None] = {}
    for row in table().rows_of(api):
        names = row.names("paddle" if table().side_of(row, api) == "torch" else "torch")
        found.update(dict.fromkeys(names[:1]))
        late.update(dict.fromkeys(names[1:]))
    return tuple({**found, **late})


def random_ops(framework: str) -> frozenset[str]:
    """Names of one framework that can draw random numbers."""
    return frozenset(name for row in table().rows if row.kind == "random" for name in row.names(framework))


def same_job(api_a: str, api_b: str) -> bool:
    """Whether two names, of one framework or of two, stand in one row or in rows of one job."""
    return api_a == api_b or not table().jobs_of(api_a).isdisjoint(table().jobs_of(api_b))
