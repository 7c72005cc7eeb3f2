"""One tensor of a checkpoint file, read when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Entry:
    """Tensor ``name``; ``load()`` reads its values (``ml_dtypes`` arrays for bf16 and fp8)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], np.ndarray]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Contents:
    """What a checkpoint holds: tensors, and the names of other things that are no tensors."""

    entries: tuple[Entry, ...]
    others: tuple[str, ...] = ()


def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype of a shared dtype name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def raw_bytes(array: np.ndarray) -> memoryview:
    """The values' bytes in C order, without a copy where the array is in that order."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def dtype_name(dtype: np.dtype) -> str:
    """The shared name of a numpy dtype."""
    return dtype.name
