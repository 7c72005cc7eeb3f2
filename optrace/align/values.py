"""How two arrays compare: error figures, and tolerances that follow from the dtype."""

from __future__ import annotations

import math
from typing import NamedTuple

import ml_dtypes
import numpy as np

# Scaled error (see ``Difference``) below which two results of one call on equal inputs are the same up to rounding,
# in units of the dtype's epsilon; sums of n products add about sqrt(n) of them.
TIGHT_ULPS = 8.0
# Above this a float64 run is not asked any more: no rounding explains it.
LOOSE_ULPS = 2.0e4
# What fills masked places is at least this large, and this many times larger than the rest.
_FILL = 1e3


class Difference(NamedTuple):
    """How far ``raw`` is from ``base``. All are 0 for equal arrays, ``inf`` where shapes differ.

    ``scaled`` and ``scaled_max`` are the root mean square and the largest of the element errors, each
    divided by the element's size plus the tensor's typical size. A few huge elements (an attention
    mask's -1e9) thus do not drown the others.
    """

    max_abs: float
    max_rel: float
    rel_l2: float
    ulp: float
    note: str = ""
    scaled: float = 0.0
    scaled_max: float = 0.0


def epsilon(dtype: str) -> float:
    """Spacing of the dtype at 1; 0 for exact types."""
    if dtype in ("float64", "complex128"):
        return 2.0**-52
    if dtype in ("float32", "complex64"):
        return 2.0**-23
    try:
        return float(ml_dtypes.finfo(dtype).eps)
    except (TypeError, ValueError):
        return 0.0


def as_float(array: np.ndarray) -> np.ndarray:
    """The values as float64 (complex as pairs of them)."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1).astype(np.float64)
    return array.astype(np.float64)


def difference(base: np.ndarray, raw: np.ndarray, dtype: str | None = None) -> Difference:
    """Compare element by element, never broadcasting; NaN and inf agree only at the same places."""
    inf = math.inf
    if base.shape != raw.shape:
        return Difference(inf, inf, inf, inf, f"shape {list(base.shape)} vs {list(raw.shape)}", inf, inf)
    if base.size == 0 or (
        base.dtype == raw.dtype and base.dtype.kind in "biuf" and np.array_equal(base, raw)
    ):
        return Difference(0.0, 0.0, 0.0, 0.0)
    if "c" in (base.dtype.kind, raw.dtype.kind):
        base, raw = base.astype(np.complex128), raw.astype(np.complex128)
    a, b = as_float(base), as_float(raw)
    bad = ~(np.isfinite(a) & np.isfinite(b))
    if bad.any():
        same = (np.isnan(a) & np.isnan(b)) | (a == b)
        if not same[bad].all():
            where = np.unravel_index(int(np.flatnonzero(bad & ~same)[0]), a.shape)
            return Difference(
                inf, inf, inf, inf, f"non-finite values differ first at {[int(i) for i in where]}", inf, inf
            )
        a, b = np.where(bad, 0.0, a), np.where(bad, 0.0, b)
    gap = np.abs(a - b)
    worst = float(gap.max())
    if worst == 0.0:
        return Difference(0.0, 0.0, 0.0, 0.0)
    scale = float(np.abs(a).max())
    norm = float(np.sqrt(np.mean(a * a)))
    rms = float(np.sqrt(np.mean(gap * gap)))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = gap / np.abs(a)
    max_rel = float(np.nanmax(np.where(np.abs(a) > 1e-6 * scale, relative, 0.0))) if scale else inf
    eps = epsilon(dtype or str(base.dtype))
    # Units in the last place of the tensor's largest value: an error near zero is no error.
    ulp = worst / (eps * 2.0 ** math.floor(math.log2(scale))) if eps and scale else inf
    size = np.abs(a)
    share = gap / (size + _typical(size))
    scaled, scaled_max = float(np.sqrt(np.mean(share * share))), float(share.max())
    return Difference(worst, max_rel, rms / norm if norm else inf, ulp, "", scaled, scaled_max)


def _typical(size: np.ndarray) -> float:
    """Root mean square of the ordinary elements: neither the fill of a mask nor far above the median."""
    sample = np.sort(_sample(size, 8192))
    nonzero = sample[sample > 0]
    if nonzero.size == 0:
        nonzero = np.sort(size[size > 0])
        if nonzero.size == 0:
            return 1e-30
    jumps = np.flatnonzero((nonzero[1:] >= _FILL) & (nonzero[1:] >= _FILL * nonzero[:-1]))
    if jumps.size:
        nonzero = nonzero[: jumps[0] + 1]
    middle = float(np.median(nonzero))
    zeros = np.zeros(sample.size - np.count_nonzero(sample))
    ordinary = np.concatenate([zeros, np.minimum(nonzero, 10 * middle)])
    return max(float(np.sqrt(np.mean(ordinary * ordinary))), 1e-30)


def _sample(array: np.ndarray, most: int) -> np.ndarray:
    """At most about ``most`` elements, evenly spread."""
    flat = array.reshape(-1)
    return flat if flat.size <= most else flat[:: flat.size // most]


def clearly_apart(base: np.ndarray, raw: np.ndarray, dtype: str, reduction: int = 1) -> bool:
    """Whether a look at few elements already shows two arrays of one shape to differ beyond rounding."""
    if base.size <= 512:
        return False
    a, b = as_float(_sample(base, 256)), as_float(_sample(raw, 256))
    if a.shape != b.shape:
        return True
    return not agree(difference(a, b, dtype), dtype, 4 * reduction)


def agree(
    found: Difference, dtype: str, reduction: int = 1, rtol: float | None = None, atol: float | None = None
) -> bool:
    """Whether a difference is rounding, for a result in ``dtype`` that sums ``reduction`` products."""
    if found.max_abs == 0.0:
        return True
    if not math.isfinite(found.max_abs):
        return False
    if rtol is not None or atol is not None:
        return found.max_abs <= (atol or 0.0) or found.rel_l2 <= (rtol or 0.0)
    limit = TIGHT_ULPS * epsilon(dtype) * max(1.0, math.sqrt(reduction) / 8)
    return found.scaled <= limit and found.scaled_max <= 30 * limit
