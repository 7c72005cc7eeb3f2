"""When two tensors of corresponding layers agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optrace.align.values import Difference, as_float, difference, epsilon
from optrace.errors import InputError

CompareMode = Literal["strict", "mean"]

# What rounding makes of a whole model, in units of the dtype's epsilon, relative to the tensor's size.
_UNITS = 256.0
# No activation is so far below zero.
_FILL = -9e3
_NOTHING = Difference(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Tolerance:
    """``atol`` and ``rtol`` as in ``numpy.isclose``; ``None`` for both asks for what rounding explains.

    ``mode`` ``"strict"`` holds every element to the given tolerance. ``"mean"`` also lets pass what rounding
    explains; that the means of two tensors agree is never enough.
    """

    atol: float | None = None
    rtol: float | None = None
    mode: CompareMode = "strict"

    def __post_init__(self) -> None:
        if self.mode not in ("strict", "mean"):
            raise InputError(f"compare_mode {self.mode!r} is not one of 'strict', 'mean'")
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} is {value!r}; give a number that is not negative")

    def agree(self, base: np.ndarray, raw: np.ndarray, dtype: str = "", floor: float = 0.0) -> bool:
        """Whether two arrays agree; never across shapes, NaN and inf only at the same places.

        ``dtype`` is the coarsest that went into them, where it is coarser than their own. Arrays that are
        both nowhere above ``floor`` are nothing but rounding.
        """
        literal = self.atol is not None or self.rtol is not None
        rounding = noise(base, raw, dtype)
        if not (literal and self.mode == "strict") and _near(base, raw, rounding):
            return True
        found = difference(base, raw)
        if not math.isfinite(found.max_abs) or found.max_abs == 0.0:
            return found.max_abs == 0.0
        if literal and _within(base, raw, self.atol or 0.0, self.rtol or 0.0):
            return True
        if literal and self.mode == "strict":
            return False
        if found.rel_l2 <= rounding:
            return True
        return max(float(np.abs(base).max()), float(np.abs(raw).max())) <= floor


def _near(base: np.ndarray, raw: np.ndarray, limit: float) -> bool:
    """A look without copies in double precision, which is enough where two arrays are close and finite."""
    if base.shape != raw.shape or base.dtype != np.float32 or raw.dtype != np.float32:
        return False
    gap, own = (base - raw).reshape(-1), base.reshape(-1)
    size = float(own @ own)
    return bool(np.isfinite(size)) and float(gap @ gap) <= 0.25 * limit * limit * size


def noise(base: np.ndarray, raw: np.ndarray, dtype: str = "") -> float:
    """The relative distance that rounding in the coarser of the two dtypes explains."""
    eps = max(epsilon(str(base.dtype)), epsilon(str(raw.dtype)), epsilon(dtype) if dtype else 0.0)
    return min(_UNITS * eps, 0.1)


def without_fills(base: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with what fills masked places on both sides (-1e9, the lowest float, -inf) made equal."""
    if base.shape != raw.shape or base.dtype.kind != "f" or raw.dtype.kind != "f" or not base.size:
        return base, raw
    filled = (base <= _FILL) & (raw <= _FILL)
    if not filled.any() or filled.all():
        return base, raw
    return np.where(filled, base.dtype.type(0), base), np.where(filled, raw.dtype.type(0), raw)


def rounding_floor(arrays: Iterable[np.ndarray | None]) -> float:
    """The magnitude below which gradients are nothing but rounding, beside gradients as large as these."""
    present = [a for a in arrays if a is not None and a.size]
    largest = max((float(np.nanmax(np.abs(as_float(a)))) for a in present), default=0.0)
    eps = max((epsilon(str(a.dtype)) for a in present), default=0.0)
    return 16 * eps * largest if math.isfinite(largest) else 0.0


def _within(base: np.ndarray, raw: np.ndarray, atol: float, rtol: float) -> bool:
    a, b = as_float(base), as_float(raw)
    return bool(np.isclose(b, a, rtol=rtol, atol=atol, equal_nan=True).all())


def furthest(base: Sequence[np.ndarray | None], raw: Sequence[np.ndarray | None]) -> Difference:
    """The largest difference of two lists in order; a missing partner differs infinitely."""
    worst = _NOTHING
    for a, b in zip(base, raw):
        if a is None and b is None:
            continue
        if a is None or b is None:
            return Difference(math.inf, math.inf, math.inf, math.inf, "one side has no gradient here")
        found = difference(a, b)
        if found.rel_l2 > worst.rel_l2:
            worst = found
    return worst
