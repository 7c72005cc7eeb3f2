"""A fixed-size fingerprint of a tensor's values.

The sketch is a linear random-sign projection (Alon, Matias, Szegedy 1996; tug-of-war sketch): with
independent signs s_k the mean over k of ``(sum_i s_ki x_i)^2`` estimates ``||x||^2``, and because
the projection is linear the sketch of a difference is the difference of sketches.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from optrace.trace.records import Fingerprint

SKETCH = 16
_BLOCK = 4096


@lru_cache(maxsize=4)
def _signs(block: int) -> np.ndarray:
    """``SKETCH x block`` signs, the same on every machine."""
    bits = np.random.Generator(np.random.PCG64(20240229)).integers(0, 2, (SKETCH, block), dtype=np.int8)
    return (2 * bits - 1).astype(np.float64)


def _rotations(blocks: int) -> np.ndarray:
    """One sign vector per block, so that a block's place matters."""
    bits = np.random.Generator(np.random.PCG64(97)).integers(0, 2, (blocks, SKETCH), dtype=np.int8)
    return (2 * bits - 1).astype(np.float64)


def fingerprint(array: np.ndarray) -> Fingerprint:
    """The fingerprint of an array of any shape and numeric dtype."""
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype) if array.flags.c_contiguous else np.stack([array.real, array.imag], -1)
    flat = np.ascontiguousarray(array).reshape(-1).astype(np.float64)
    finite = np.isfinite(flat)
    bad = int(flat.size - np.count_nonzero(finite))
    if bad:
        flat = np.where(finite, flat, 0.0)
    n = flat.size
    if n == 0:
        return Fingerprint((0.0,) * SKETCH, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
    blocks = math.ceil(n / _BLOCK)
    padded = flat if n == blocks * _BLOCK else np.concatenate([flat, np.zeros(blocks * _BLOCK - n)])
    partial = padded.reshape(blocks, _BLOCK) @ _signs(_BLOCK).T
    sketch = (partial * _rotations(blocks)).sum(0)
    good = n - bad
    return Fingerprint(
        tuple(float(s) for s in sketch),
        float(flat.sum() / max(good, 1)),
        float(math.sqrt(float(flat @ flat) / max(good, 1))),
        float(np.abs(flat).sum() / max(good, 1)),
        float(flat.min()),
        float(flat.max()),
        bad,
        n,
    )


def distance(a: Fingerprint, b: Fingerprint) -> float:
    """Estimated L2 distance of two tensors of one shape; standard error about 18 % of it."""
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a.sketch, b.sketch)) / SKETCH)
