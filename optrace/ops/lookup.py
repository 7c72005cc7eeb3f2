"""Questions to the table that take names only."""

from __future__ import annotations

from optrace.ops.schema import Row
from optrace.ops.table import table


def lookup(api: str) -> Row | None:
    """The first row that holds ``api`` on either side."""
    rows = table().rows_of(api)
    return rows[0] if rows else None


def equivalents(api: str) -> tuple[str, ...]:
    """The other framework's names for the job of ``api``: of its own rows, the canonical ones first.

    Those of other rows with the same job come last (``torch.Tensor.view`` and ``paddle.reshape``).
    """
    found: dict[str, None] = {}
    late: dict[str, None] = {}
    rows = table().rows_of(api)
    if not rows:
        return ()
    other = "paddle" if table().side_of(rows[0], api) == "torch" else "torch"
    same = [row for job in sorted(table().jobs_of(api)) for row in table().rows_for(job)]
    for row in [*rows, *(row for row in same if row not in rows)]:
        names = row.names(other)
        first = 1 if row in rows else 0
        found.update(dict.fromkeys(names[:first]))
        late.update(dict.fromkeys(names[first:]))
    return tuple({**found, **late})


def random_ops(framework: str) -> frozenset[str]:
    """Names of one framework that can draw random numbers."""
    rows = (row for row in table().rows if row.kind == "random" or row.draws)
    return frozenset(name for row in rows for name in row.names(framework))


def same_job(api_a: str, api_b: str) -> bool:
    """Whether two names, of one framework or of two, stand in one row or in rows of one job."""
    return api_a == api_b or not table().jobs_of(api_a).isdisjoint(table().jobs_of(api_b))
