"""A fixed-size fingerprint of a tensor's values.

The sketch is a linear random-sign projection (Alon, Matias, Szegedy 1996; tug-of-war sketch): with
independent signs s_k the mean over k of ``(sum_i s_ki x_i)^2`` estimates ``||x||^2``, and because
the projection is linear the sketch of a difference is the difference of sketches.

The sign of element i is a product of two: one of ``_SIGNS`` by its place in its row of ``_ROW``
elements, one of a longer table by the row. Each number is computed in the same way and order for equal
values, so equal tensors have equal fingerprints whichever framework holds them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

import ml_dtypes
import numpy as np

from optrace.trace.records import Fingerprint

# Numbers in a sketch; a further column of ones gives the sum.
SKETCH = 15
_ROW = 256
# Rows that are projected at once: small enough for BLAS to stay on one thread and in the cache.
_ROWS = 64
# Values that float32 holds exactly are summed in float32 (from float64 on: in blocks of ``_ROW``).
_EXACT = frozenset({"float32", "float16", "bfloat16", "bool", "int8", "uint8", "int16"}) | {
    name for name in dir(ml_dtypes) if name.startswith("float8")
}
# Tensors of at most this many elements wait for company and are summarised together.
SMALL = 512
BATCH = 64


def _random_signs(seed: int, shape: tuple[int, int]) -> np.ndarray:
    bits = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, shape, dtype=np.int8)
    signs = (2 * bits - 1).astype(np.float64)
    return np.concatenate([signs, np.ones((shape[0], 1))], 1)


_SIGNS = _random_signs(20240229, (_ROW, SKETCH))
_SIGNS_32 = _SIGNS.astype(np.float32)
_ONES = np.ones(1 << 17)
_ONES_32 = _ONES.astype(np.float32)
_rotations = _random_signs(97, (1024, SKETCH))


def _rotation(rows: int) -> np.ndarray:
    """One sign vector per row, so that a row's place matters."""
    global _rotations
    if rows > len(_rotations):
        _rotations = _random_signs(97, (2 * rows, SKETCH))
    return _rotations[:rows]


def fingerprint(array: np.ndarray) -> Fingerprint:
    """The fingerprint of an array of any shape and numeric dtype. Raises ``TypeError`` for other dtypes."""
    flat = _flat(array)
    if flat.size <= SMALL:
        return _small([flat.astype(np.float64)])[0]
    return _large(flat)


def _flat(array: np.ndarray) -> np.ndarray:
    """The values in order, as float32 where that is exact, else as float64; complex ones as pairs."""
    name = array.dtype.name
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array)
        array = array.reshape(-1).view(array.real.dtype)
        name = array.dtype.name
    elif array.dtype.kind not in "biuf" and not hasattr(ml_dtypes, name):
        raise TypeError(f"an array of {name} has no fingerprint")
    flat = array.reshape(-1)
    wanted = np.float32 if name in _EXACT else np.float64
    return flat if flat.dtype == wanted else flat.astype(wanted)


@np.errstate(all="ignore")  # what the values are is no concern of the program's
def _large(flat: np.ndarray) -> Fingerprint:
    square = float(flat @ flat)
    bad = 0
    if not math.isfinite(square):  # not finite values, or squares too large
        flat = flat.astype(np.float64)
        finite = np.isfinite(flat)
        bad = flat.size - int(np.count_nonzero(finite))
        if bad:
            flat = np.where(finite, flat, 0.0)
        square = float(flat @ flat)
    sketch, total = _project(flat)
    good = max(flat.size - bad, 1)
    return Fingerprint(
        sketch,
        total / good,
        math.sqrt(square / good),
        _absolute(flat) / good,
        float(flat.min()),
        float(flat.max()),
        bad,
        flat.size,
    )


def _absolute(flat: np.ndarray) -> float:
    """The sum of the absolute values, in pieces that stay in the cache."""
    ones = _ONES if flat.dtype == np.float64 else _ONES_32
    return sum(float(np.abs(part) @ ones[: part.size]) for part in _pieces(flat))


def _pieces(flat: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, flat.size, _ONES.size):
        yield flat[start : start + _ONES.size]


def _project(flat: np.ndarray) -> tuple[tuple[float, ...], float]:
    """Sketch and sum."""
    signs = _SIGNS if flat.dtype == np.float64 else _SIGNS_32
    block = _ROW * _ROWS
    blocks = flat.size // block
    rows = -(-flat.size // _ROW)
    whole = np.matmul(flat[: blocks * block].reshape(blocks, _ROWS, _ROW), signs).reshape(-1, SKETCH + 1)
    rest = flat[blocks * block :]
    if rest.size:
        padded = np.zeros((_ROWS, _ROW), flat.dtype)
        padded.reshape(-1)[: rest.size] = rest
        whole = np.concatenate([whole, (padded @ signs)[: rows - blocks * _ROWS]])
    # Padded to float64 here, where the sums grow long.
    *sketch, total = np.einsum("rk,rk->k", whole, _rotation(rows), dtype=np.float64).tolist()
    return tuple(sketch), total


@np.errstate(all="ignore")
def _small(arrays: list[np.ndarray]) -> list[Fingerprint]:
    """Fingerprints of at most ``BATCH`` arrays of equal size, in float64."""
    n = arrays[0].size
    if n == 0:
        return [Fingerprint((0.0,) * SKETCH, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)] * len(arrays)
    # Always as many rows, so that a fingerprint does not depend on who was summarised along.
    table = np.zeros((BATCH, n))
    for row, array in zip(table, arrays):
        row[:] = array
    finite = np.isfinite(table)
    bad = n - np.count_nonzero(finite, axis=1)
    if bad.any():
        table = np.where(finite, table, 0.0)
    signs = np.concatenate([_SIGNS * r for r in _rotation(-(-n // _ROW))])[:n]
    sums = np.matmul(table, signs)
    good = np.maximum(n - bad, 1)
    rms = np.sqrt(np.einsum("ij,ij->i", table, table) / good)
    columns = (
        sums[:, :SKETCH].tolist(), (sums[:, SKETCH] / good).tolist(), rms.tolist(),
        (np.abs(table).sum(1) / good).tolist(),
        table.min(1).tolist(), table.max(1).tolist(), bad.tolist(),
    )  # fmt: skip
    return [Fingerprint(tuple(sketch), *rest, n) for sketch, *rest in zip(*columns)][: len(arrays)]  # type: ignore[call-arg]


def distance(a: Fingerprint, b: Fingerprint) -> float:
    """Estimated L2 distance of two tensors of one shape; standard error about 18 % of it."""
    return math.dist(a.sketch, b.sketch) / math.sqrt(SKETCH)


Key = tuple[int, int]


class Fingerprints(MutableMapping[Key, Fingerprint]):
    """Fingerprints by ``(uid, version)``. Those of small tensors are computed together, or when asked for."""

    def __init__(self) -> None:
        self._done: dict[Key, Fingerprint] = {}
        self._waiting: dict[Key, np.ndarray] = {}
        self._queues: dict[int, list[Key]] = {}
        self._lock = threading.RLock()

    def take(self, key: Key, array: np.ndarray) -> list[tuple[Key, Fingerprint]]:
        """Summarise ``array`` as it is now; returns those fingerprints that are finished by that.

        Raises ``TypeError`` for a dtype that has none.
        """
        flat = _flat(array)
        if flat.size > SMALL:
            found = self._done[key] = _large(flat)
            return [(key, found)]
        with self._lock:
            self._waiting[key] = np.array(flat)
            queue = self._queues.setdefault(flat.size, [])
            queue.append(key)
            return self._finish(flat.size) if len(queue) >= BATCH else []

    def finish(self) -> list[tuple[Key, Fingerprint]]:
        """Compute all that wait."""
        with self._lock:
            return [pair for size in list(self._queues) for pair in self._finish(size)]

    def _finish(self, size: int) -> list[tuple[Key, Fingerprint]]:
        keys = self._queues.pop(size, [])
        found = list(zip(keys, _small([self._waiting[key] for key in keys]))) if keys else []
        self._done.update(found)
        for key in keys:
            del self._waiting[key]
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._done or key in self._waiting

    def __getitem__(self, key: Key) -> Fingerprint:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: Key, default: Any = None) -> Any:
        """The fingerprint, ``default`` where there is none. Asked for very often."""
        found = self._done.get(key)
        if found is None and key in self._waiting:
            with self._lock:
                self._finish(self._waiting[key].size if key in self._waiting else -1)
            found = self._done.get(key)
        return default if found is None else found

    def __setitem__(self, key: Key, found: Fingerprint) -> None:
        self._done[key] = found

    def __delitem__(self, key: Key) -> None:
        with self._lock:
            self._finish(self._waiting[key].size if key in self._waiting else -1)
            del self._done[key]

    def __iter__(self) -> Iterator[Key]:
        self.finish()
        return iter(list(self._done))

    def __len__(self) -> int:
        return len(self._done) + len(self._waiting)
