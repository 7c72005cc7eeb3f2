"""Tensor payloads: safetensors files that are valid at any moment while they grow.

The header's room is reserved when a shard is opened, and each entry is added by overwriting its
closing brace, after the tensor's bytes are out.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from optrace.errors import TraceError
from optrace.trace.frames import write_all

# A shard is closed when it holds this many bytes or its header is full.
SHARD_BYTES = 256 << 20
HEADER_BYTES = 1 << 16
# Values kept in memory after reading, in bytes.
CACHE_BYTES = 256 << 20

# So many of a value's 8-byte words tell whether it may be one that is stored already.
_SAMPLED = 4096

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_PARTS = {"complex64": "F32", "complex128": "F64"}  # as pairs of real and imaginary part


class Place(NamedTuple):
    """Where the bytes of a value are: ``offset`` counts from the start of the shard's file."""

    shard: int
    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]


def shard_name(index: int) -> str:
    return f"values-{index:05d}.safetensors"


@lru_cache(maxsize=256)
def dtype_of(name: str) -> np.dtype:
    """The numpy dtype of that name. Raises ``TypeError`` for one that can't be stored."""
    dtype = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    if dtype.hasobject or dtype.names is not None or dtype.name != name:
        raise TypeError(f"arrays of {name} can't be stored")
    return dtype


@lru_cache(maxsize=256)
def _name_of(dtype: np.dtype) -> str:
    return dtype.newbyteorder("=").name


class ShardWriter:
    """Appends arrays to the shards of one folder; the same bytes twice are stored once.

    One thread at a time. Raises ``OSError`` when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index = -1
        self._file = -1
        self._data = self._header = 0  # bytes in use
        self._names = 0
        self._seen: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def add(self, array: np.ndarray) -> Place:
        """Store ``array``. Raises ``TypeError`` for a dtype that can't be stored."""
        name = _name_of(array.dtype)
        dtype = dtype_of(name)
        array = np.ascontiguousarray(array, dtype).reshape(array.shape)
        raw = array.reshape(-1).view(np.uint8)
        mark = (raw.size, _checksum(raw))
        for shard, offset in self._seen.get(mark, ()):
            if self._same(shard, offset, raw):
                return Place(shard, offset, raw.size, name, array.shape)
        place = self._append(raw, name, array.shape)
        self._seen.setdefault(mark, []).append((place.shard, place.offset))
        return place

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, raw: np.ndarray, name: str, shape: tuple[int, ...]) -> Place:
        if self._file < 0 or self._data + raw.size > SHARD_BYTES:
            self._open()
        entry = self._entry(raw.size, name, shape)
        if self._header + len(entry) + 1 > HEADER_BYTES:
            self._open()
            entry = self._entry(raw.size, name, shape)
        offset = 8 + HEADER_BYTES + self._data
        write_all(self._file, raw.data)
        os.pwrite(self._file, entry + b"}", 8 + self._header)
        self._header += len(entry)
        self._data += raw.size
        self._names += 1
        return Place(self._index, offset, raw.size, name, shape)

    def _entry(self, size: int, name: str, shape: tuple[int, ...]) -> bytes:
        kind, dims = _NAMES.get(name), list(shape)
        if name in _PARTS:
            kind, dims = _PARTS[name], [*dims, 2]
        elif kind is None:
            kind, dims = "U8", [size]
        # A shape that overflows is refused by safetensors although the tensor is empty.
        dims = dims if math.prod(d for d in dims if d) < 1 << 62 else [size]
        shape_text = ",".join(map(str, dims))
        text = (
            f'"{self._names}":{{"dtype":"{kind}","shape":[{shape_text}],'
            f'"data_offsets":[{self._data},{self._data + size}]}}'
        )
        return ("," * bool(self._header > 1) + text).encode()

    def _open(self) -> None:
        self.close()
        self._index += 1
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._file = os.open(self._folder / shard_name(self._index), flags, 0o666)
        write_all(self._file, HEADER_BYTES.to_bytes(8, "little") + b"{}".ljust(HEADER_BYTES))
        self._data, self._header = 0, 1

    def _same(self, shard: int, offset: int, raw: np.ndarray) -> bool:
        with (self._folder / shard_name(shard)).open("rb") as file:
            file.seek(offset)
            for start in range(0, raw.size, 1 << 20):
                part = raw[start : start + (1 << 20)]
                if file.read(part.size) != part.tobytes():
                    return False
        return True


def _checksum(raw: np.ndarray) -> int:
    """A cheap number that equal bytes share; those that share it are compared."""
    whole = raw[: raw.size // 8 * 8].view(np.uint64)
    tail = int.from_bytes(raw[whole.size * 8 :].tobytes(), "little")
    if whole.size > 8 * _SAMPLED:
        whole = whole[:: whole.size // _SAMPLED]
    middle = int(whole[whole.size // 3]) if whole.size else 0
    return hash((int(np.add.reduce(whole)), middle, tail))


class ShardReader:
    """Reads values where they are asked for; keeps the most recent ones."""

    def __init__(self, folder: Path, places: dict[tuple[int, int], Place], cache: int = CACHE_BYTES) -> None:
        self._folder = folder
        self.places = places
        self._room = cache
        self._files: dict[int, int] = {}
        self._cache: OrderedDict[tuple[int, int], np.ndarray] = OrderedDict()
        self._cached = 0
        self._lock = threading.Lock()

    def holds(self, key: tuple[int, int]) -> bool:
        return key in self.places

    def get(self, key: tuple[int, int]) -> np.ndarray | None:
        """The value, ``None`` when it is not stored. Raises ``TraceError`` when its bytes are missing."""
        place = self.places.get(key)
        if place is None:
            return None
        with self._lock:
            found = self._cache.get(key)
            if found is None:
                found = self._cache[key] = self._read(place)
                self._cached += found.nbytes
                while self._cached > self._room and len(self._cache) > 1:
                    self._cached -= self._cache.popitem(last=False)[1].nbytes
            else:
                self._cache.move_to_end(key)
            return found

    def forget(self, key: tuple[int, int]) -> None:
        """Hold no copy of the value in memory."""
        with self._lock:
            found = self._cache.pop(key, None)
            self._cached -= found.nbytes if found is not None else 0

    def _read(self, place: Place) -> np.ndarray:
        path = self._folder / shard_name(place.shard)
        try:
            if place.shard not in self._files:
                if not path.is_file():
                    raise TraceError(f"{path} is missing; the trace was copied without it")
                self._files[place.shard] = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            file = self._files[place.shard]
            if os.fstat(file).st_size < place.offset + place.size:
                raise TraceError(f"{path} is too short: {place.size:,} bytes at {place.offset:,} are missing")
            raw = np.empty(place.size, np.uint8)
            self._fill(file, raw, place.offset)
        except OSError as error:
            raise TraceError(f"{path} can't be read: {error}") from error
        return raw.view(dtype_of(place.dtype)).reshape(place.shape)

    @staticmethod
    def _fill(file: int, raw: np.ndarray, offset: int) -> None:
        view = raw.data
        while len(view):
            part = os.pread(file, min(len(view), 1 << 30), offset)
            if not part:
                raise TraceError("a file of values became shorter while it was read")
            view[: len(part)] = part
            view, offset = view[len(part) :], offset + len(part)

    # Bound early: at the interpreter's end the module may be gone first.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        for file in self._files.values():
            close(file)
