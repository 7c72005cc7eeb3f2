"""Where in a tensor an error sits and how large it is, small enough to draw on a finding's card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optrace.align.correspondence import Correspondence
from optrace.align.values import as_float
from optrace.diagnose.findings import Finding
from optrace.trace.records import Call, tensors_in

if TYPE_CHECKING:
    from optrace.report.model import Report

BINS = 24
CELLS = 32


class Picture(NamedTuple):
    """``bars``: share of the wrong elements per bin of log10 of the error, from ``low`` to ``high``.

    ``cells``: the largest error per block, 0 to 1 of the largest of all, ``None`` for no error; rows are
    what comes before the last axis, columns the last axis. ``given``: from equal inputs, not as the runs showed.
    """

    bars: list[float]
    low: float
    high: float
    cells: list[list[float | None]]
    wrong: int
    size: int
    shape: tuple[int, ...]
    given: bool


def picture(report: Report, finding: Finding) -> Picture | None:
    """The picture of a finding, ``None`` where values are not kept or shapes differ."""
    links = report.alignment
    if not isinstance(links, Correspondence) or finding.base is None or finding.raw is None:
        return None
    base, raw = _first(finding.base), _first(finding.raw)
    if base is None or raw is None or base.shape != raw.shape:
        return None
    own: Any = getattr(links, "own", {})
    wanted, got = links.base.trace.value_of(base.key), own.get(raw.key)
    given = got is not None
    if got is None:
        got = links.raw.trace.value_of(raw.key)
    if wanted is None or got is None or wanted.shape != got.shape or wanted.size == 0:
        return None
    return _of(as_float(wanted), as_float(got), given)


def _first(call: Call) -> Any:
    return next(iter([*tensors_in(call.outputs), *call.mutated]), None)


def _of(wanted: np.ndarray, got: np.ndarray, given: bool) -> Picture | None:
    with np.errstate(all="ignore"):
        error = np.abs(wanted - got)
    # Where only one of them is finite the error is as large as can be shown.
    odd = ~np.isfinite(error) & ~((wanted == got) | (np.isnan(wanted) & np.isnan(got)))
    error = np.where(np.isfinite(error), error, 0.0)
    largest = float(error.max(initial=0.0)) or 1.0
    error = np.where(odd, largest, error)
    some = error[error > 0]
    if not some.size:
        return None
    logs = np.log10(some)
    low, high = math.floor(float(logs.min())), math.ceil(float(logs.max()) + 1e-9)
    high = max(high, low + 1)
    counts, _ = np.histogram(logs, bins=BINS, range=(low, high))
    bars = (counts / counts.max()).tolist()
    return Picture(bars, low, high, _blocks(error, largest), some.size, error.size, wanted.shape, given)


def _blocks(error: np.ndarray, largest: float) -> list[list[float | None]]:
    table = error.reshape(-1, error.shape[-1]) if error.ndim else error.reshape(1, 1)
    for axis in (0, 1):
        size = table.shape[axis]
        starts = np.unique(np.linspace(0, size, min(size, CELLS), endpoint=False).astype(int))
        table = np.maximum.reduceat(table, starts, axis=axis)
    return [[None if e == 0 else round(float(e) / largest, 3) for e in row] for row in table]
