"""The safetensors format: a length, a JSON header, the tensors' bytes."""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from optrace.errors import ConversionError
from optrace.weights.checkpoint.entry import Contents, Entry, numpy_dtype, raw_bytes

_MOST_HEADER = 100_000_000
_MOST_AXES = 64
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
    "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip
_CODES = {name: code for code, name in _NAMES.items()}


def read(path: Path) -> Contents:
    """The tensors of a file. Raises ``ConversionError`` for a header that does not describe the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_MOST_HEADER, size - 8):
            raise ConversionError(f"{path} is no safetensors file: its header would be {length} bytes long")
        try:
            header: dict[str, Any] = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise ValueError("its header is no table")
        except (ValueError, RecursionError) as error:
            raise ConversionError(f"{path} is no safetensors file: {error}") from error
    start = 8 + length
    entries = []
    for name, about in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = _NAMES[about["dtype"]], tuple(int(d) for d in about["shape"])
            begin, end = map(int, about["data_offsets"])
            if len(shape) > _MOST_AXES or min(shape, default=0) < 0:
                raise ValueError("an impossible shape")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConversionError(
                f"{path}: the header's entry for {name!r} is malformed ({error!r})"
            ) from error
        needed = math.prod(shape) * numpy_dtype(dtype).itemsize
        if not 0 <= begin <= end <= size - start or end - begin != needed:
            raise ConversionError(
                f"{path}: the bytes of {name!r} lie outside the file or do not fit its shape"
            )
        entries.append(Entry(name, shape, dtype, functools.partial(_load, path, start + begin, dtype, shape)))
    return Contents(tuple(entries))


def _load(path: Path, offset: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    kind = numpy_dtype(dtype)
    # Read, not mapped: the pages of a mapping would stay in memory until the end.
    raw = np.fromfile(path, np.uint8, count * kind.itemsize, offset=offset)
    return raw.view(kind).reshape(shape)


def write(path: Path, tensors: Iterable[Entry], progress: Any = None) -> None:
    """Write tensors one after the other. Raises ``ConversionError`` for a dtype the format has not."""
    tensors = list(tensors)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for entry in tensors:
        if entry.dtype not in _CODES:
            raise ConversionError(
                f"safetensors has no dtype {entry.dtype} ({entry.name}); add a rule with 'cast'"
            )
        end = offset + entry.nbytes
        header[entry.name] = {
            "dtype": _CODES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for entry in tensors:
            file.write(raw_bytes(entry.load()))
            if progress is not None:
                progress(entry)
