"""When two gradients are the same up to rounding."""

from __future__ import annotations

import numpy as np

from optrace.align.values import as_float, epsilon

# One call's gradient from equal gradients, in units of the dtype's epsilon; and at the very least.
_LOCAL, _LEAST = 200.0, 1e-4


def norm(array: np.ndarray | None) -> float:
    """Euclidean norm; 0 for no gradient."""
    return 0.0 if array is None else float(np.linalg.norm(as_float(array).reshape(-1)))


def apart(base: np.ndarray | None, raw: np.ndarray | None) -> float:
    """Distance of two gradients relative to the larger; no gradient is zero; 1 and more is nothing in common."""
    if base is None and raw is None:
        return 0.0
    a = as_float(base) if base is not None else np.zeros(1)
    b = as_float(raw) if raw is not None else np.zeros(1)
    if base is None or raw is None:
        present = b if base is None else a
        return 1.0 if np.any(present != 0) else 0.0
    if a.shape != b.shape:
        return np.inf
    bad = ~(np.isfinite(a) & np.isfinite(b))
    if bad.any():
        same = (np.isnan(a) & np.isnan(b)) | (a == b)
        if not same[bad].all():
            return np.inf
        a, b = np.where(bad, 0.0, a), np.where(bad, 0.0, b)
    gap, size = float(np.linalg.norm((a - b).reshape(-1))), max(norm(a), norm(b))
    return gap / size if size else 0.0


def limit(dtype: str) -> float:
    """Largest ``apart`` of what one call makes of equal gradients."""
    return max(_LEAST, _LOCAL * epsilon(dtype))


def ratio(base: np.ndarray | None, raw: np.ndarray | None) -> float | None:
    """The factor by which raw is base's multiple; ``None`` when it is none."""
    if base is None or raw is None or base.shape != raw.shape:
        return None
    a, b = as_float(base).reshape(-1), as_float(raw).reshape(-1)
    size = float(a @ a)
    if not np.isfinite(size) or size == 0:
        return None
    factor = float(a @ b) / size
    return factor if apart(factor * a, b) < 1e-3 and factor else None
