"""How large the difference of the two runs is, call by call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optrace.align.correspondence import Correspondence
from optrace.align.prints import Prints
from optrace.align.values import as_float

if TYPE_CHECKING:
    from optrace.report.model import Report
    from optrace.report.rows import Facing

# So many calls at most are drawn; of more, every n-th and all causes.
DRAWN = 2000


def along(report: Report, rows: list[Facing]) -> list[list[Any]]:
    """``[row, observed, forced]`` for rows whose two calls have values: relative L2 errors or ``None``.

    ``observed``: as the runs showed; ``forced``: given base's inputs.
    """
    links = report.alignment
    if not isinstance(links, Correspondence):
        return []
    places = {node.call.id: node for node in links.raw.nodes}
    step = max(1, len(rows) // DRAWN)
    found = []
    for at, row in enumerate(rows):
        if row.base is None or row.raw is None or (at % step and row.state != "cause"):
            continue
        node = places.get(row.raw.id)
        pair = next(((k, b) for k in node.outputs for b in _made(links, row, k)), None) if node else None
        if pair is not None:
            found.append([at, *_errors(links, *pair)])
    return found if any(observed or forced for _, observed, forced in found) else []


def _made(links: Correspondence, row: Facing, key: Any) -> list[Any]:
    """Base's result that faces raw's."""
    assert row.base is not None
    makers = links.base.makers
    theirs = [b for b in links.base_keys(key) if any(c is row.base for c in makers.get(b, ()))]
    if theirs:
        return theirs
    shape = links.raw.refs[key].shape
    node = next((n for n in links.base.nodes if n.call is row.base), None)
    return [b for b in (node.outputs if node else ()) if links.base.refs[b].shape == shape]


def _errors(links: Correspondence, raw: Any, base: Any) -> tuple[float | None, float | None]:
    mine, theirs = links.raw.refs[raw], links.base.refs[base]
    if isinstance(links, Prints):
        return _finite(links.gap(theirs, mine)), None
    wanted = links.base.trace.value(theirs)
    own: Any = getattr(links, "own", {})
    return _relative(wanted, links.raw.trace.value(mine)), _relative(wanted, own.get(raw))


def _relative(wanted: np.ndarray | None, got: np.ndarray | None) -> float | None:
    if wanted is None or got is None or wanted.shape != got.shape or wanted.size == 0:
        return None
    a, b = as_float(wanted).reshape(-1), as_float(got).reshape(-1)
    with np.errstate(all="ignore"):
        norm = float(np.sqrt(a @ a))
        return _finite(float(np.sqrt((a - b) @ (a - b))) / norm) if norm else None


def _finite(error: float) -> float | None:
    return float(f"{error:.3g}") if math.isfinite(error) else None
