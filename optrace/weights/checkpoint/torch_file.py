"""``.bin``, ``.pt``, ``.pth``: a zip archive with a pickle that describes tensors over stored bytes."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optrace.errors import ConversionError
from optrace.weights.checkpoint import pickles
from optrace.weights.checkpoint.entry import Contents, Entry, numpy_dtype, raw_bytes

_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "Float8_e4m3fnStorage": "float8_e4m3fn",
    "Float8_e5m2Storage": "float8_e5m2",
}  # fmt: skip
_CLASSES = {name: storage for storage, name in _STORAGES.items()}
# Where programs put the state dict inside what they save.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "weights")
_ALIGNMENT = 64
_MOST_PICKLE = 1 << 28
_MOST_AXES = 64
# Elements that an expanded tensor may have, if its storage has fewer.
_MOST_REPEATED = 1 << 24


@dataclass(frozen=True)
class _Storage:
    """Bytes in the file: ``size`` elements of ``dtype`` from ``offset`` on."""

    path: Path
    dtype: str
    offset: int
    size: int


@dataclass(frozen=True)
class _Tensor:
    """A tensor over a storage; ``start`` and ``strides`` count elements."""

    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def load(self) -> np.ndarray:
        kind = numpy_dtype(self.dtype)
        if 0 in self.shape:
            return np.zeros(self.shape, kind)
        extent = 1 + sum((d - 1) * s for d, s in zip(self.shape, self.strides))
        offset = self.storage.offset + self.start * kind.itemsize
        raw = np.fromfile(self.storage.path, np.uint8, extent * kind.itemsize, offset=offset)
        if raw.size != extent * kind.itemsize:
            raise ConversionError(f"{self.storage.path} is truncated: the bytes of a tensor are missing")
        flat = raw.view(kind)
        strides = tuple(s * kind.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides)


def read(path: Path) -> Contents:
    """The tensors of a file, read when asked for. Raises ``ConversionError``; nothing in the file is run."""
    try:
        tree = _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        struct.error,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        raise ConversionError(f"{path} can't be read as a torch checkpoint: {error}") from error
    return _contents(path, tree)


def _contents(path: Path, tree: Any) -> Contents:
    if not isinstance(tree, dict):
        raise ConversionError(f"{path} holds a {type(tree).__name__}, not a dict of tensors")
    if not any(isinstance(v, _Tensor) for v in tree.values()):
        inner = [k for k in _WRAPPERS if isinstance(tree.get(k), dict)]
        if not inner:
            raise ConversionError(f"{path} holds no tensors; its keys are {', '.join(map(str, tree))[:200]}")
        others = tuple(str(k) for k in tree if k != inner[0])
        found = _contents(path, tree[inner[0]])
        return Contents(found.entries, others + found.others)
    entries = tuple(
        Entry(str(n), t.shape, t.dtype, t.load) for n, t in tree.items() if isinstance(t, _Tensor)
    )
    return Contents(entries, tuple(str(n) for n, t in tree.items() if not isinstance(t, _Tensor)))


def _tensor(storage: Any, start: int, shape: Any, strides: Any, *_: Any, dtype: str | None = None) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise ConversionError("a tensor of a kind that holds no plain values")
    numbers = (start, *shape, *strides)
    if len(shape) != len(strides) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ConversionError(f"{storage.path}: a tensor's shape, strides or place is impossible")
    made = _Tensor(storage, start, tuple(shape), tuple(strides), dtype or storage.dtype)
    last = (
        made.start + sum((d - 1) * s for d, s in zip(made.shape, made.strides)) if 0 not in made.shape else 0
    )
    repeats = math.prod(made.shape) > max(storage.size, _MOST_REPEATED)
    if len(shape) > _MOST_AXES or repeats or (0 not in made.shape and last >= storage.size):
        raise ConversionError(
            f"{storage.path}: a tensor of shape {list(made.shape)} reaches beyond its storage"
        )
    return made


def _allowed() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
        ("torch.nn.parameter", "Parameter"): lambda data=None, *_: data,
        ("torch", "Size"): tuple,
        ("torch", "device"): lambda *a: a,
        ("torch.serialization", "_get_layout"): lambda name: name,
        ("builtins", "set"): pickles.set_of,
    }
    for name, dtype in _STORAGES.items():
        table["torch", name] = table["torch.storage", name] = dtype
        table["torch", dtype] = dtype
    return table


def _read_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        described = [n for n in archive.namelist() if n.endswith("data.pkl")]
        if len(described) != 1:
            raise ConversionError(f"{path} is a zip archive but no torch checkpoint (no data.pkl)")
        prefix = described[0].removesuffix("data.pkl")
        infos = {i.filename: i for i in archive.infolist()}
        if infos[described[0]].file_size > _MOST_PICKLE:
            raise ConversionError(
                f"{path}: its data.pkl would be {infos[described[0]].file_size:,} bytes long"
            )
        text = archive.read(described[0])

    def storage(pid: Any) -> _Storage:
        _, dtype, key, _, size = pid
        _check_storage(path, dtype, key, size)
        info = infos[f"{prefix}data/{key}"]
        if info.compress_type != zipfile.ZIP_STORED:
            raise ConversionError(f"{path}: compressed tensors are not supported")
        found = min(int(size), info.file_size // numpy_dtype(dtype).itemsize)
        return _Storage(path, dtype, _data_offset(path, info), found)

    return pickles.Unpickler(io.BytesIO(text), path, _allowed(), storage).load()


def _check_storage(path: Path, dtype: Any, key: Any, size: Any) -> None:
    if dtype not in _CLASSES or not isinstance(key, str) or type(size) is not int or size < 0:
        raise ConversionError(f"{path} describes a storage that can't be")


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored member's bytes begin: behind its local header, whose length varies."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


def _read_legacy(path: Path) -> Any:
    """Files from before torch 1.6: pickles one after the other, then the storages' bytes."""
    with path.open("rb") as file:
        if pickles.Unpickler(file, path, {}).load() != 0x1950A86A20F9469CFC6C:
            raise ConversionError(f"{path} is no torch checkpoint")
        pickles.Unpickler(file, path, {}).load()  # protocol version
        pickles.Unpickler(file, path, {}).load()  # about the machine
        wanted: dict[str, tuple[str, int]] = {}
        at: dict[str, int] = {}

        class Later(_Storage):
            """A storage whose place in the file is known only after the pickle."""

        made: dict[str, list[_Storage]] = {}

        def storage(pid: Any) -> _Storage:
            _, dtype, key, _, size, view = pid
            _check_storage(path, dtype, key, size)
            if view is not None:
                raise ConversionError(
                    f"{path}: views of storages are not supported; save it again with a newer torch"
                )
            wanted[key] = dtype, int(size)
            found = Later(path, dtype, 0, int(size))
            made.setdefault(key, []).append(found)
            return found

        tree = pickles.Unpickler(file, path, _allowed(), storage).load()
        for key in pickles.Unpickler(file, path, {}).load():
            if not isinstance(key, str):
                raise ConversionError(f"{path} names a storage by something that is no text")
            dtype, size = wanted[key]
            file.seek(8, io.SEEK_CUR)
            at[key] = file.tell()
            file.seek(size * numpy_dtype(dtype).itemsize, io.SEEK_CUR)
        for key, storages in made.items():
            for found in storages:
                object.__setattr__(found, "offset", at[key])
    return tree


def write(path: Path, tensors: Iterable[Entry], progress: Any = None) -> None:
    """Write a file that ``torch.load`` reads with ``weights_only``, one tensor at a time."""
    tensors = list(tensors)
    text = pickles.START + pickles.EMPTY_DICT
    for number, entry in enumerate(tensors):
        text += pickles.text(entry.name) + _described(entry, number) + pickles.SET_ITEM
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        root = path.stem or "archive"
        archive.writestr(f"{root}/data.pkl", text + pickles.STOP)
        archive.writestr(f"{root}/byteorder", "little")
        for number, entry in enumerate(tensors):
            info = zipfile.ZipInfo(f"{root}/data/{number}")
            # torch maps tensors only where they begin at a multiple of this; 20 bytes hold the 64-bit sizes.
            header = archive.fp.tell() + 30 + len(info.filename) + 20 + 4  # type: ignore[union-attr]
            padding = -header % _ALIGNMENT
            info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
            with archive.open(info, "w", force_zip64=True) as member:
                member.write(raw_bytes(entry.load()))
            if progress is not None:
                progress(entry)
        archive.writestr(f"{root}/version", "3\n")


def _described(entry: Entry, number: int) -> bytes:
    if entry.dtype not in _CLASSES:
        raise ConversionError(
            f"torch checkpoints have no dtype {entry.dtype} ({entry.name}); add a rule with 'cast'"
        )
    size = int(np.prod(entry.shape, dtype=np.int64))
    strides: list[int] = []
    step = 1
    for d in reversed(entry.shape):
        strides.insert(0, step)
        step *= max(d, 1)
    storage = pickles.sequence(
        pickles.text("storage"),
        pickles.named("torch", _CLASSES[entry.dtype]),
        pickles.text(str(number)),
        pickles.text("cpu"),
        pickles.integer(size),
    )
    hooks = pickles.called(pickles.named("collections", "OrderedDict"), b")")
    arguments = pickles.sequence(
        storage + b"Q",
        pickles.integer(0),
        pickles.integers(entry.shape),
        pickles.integers(tuple(strides)),
        pickles.FALSE,
        hooks,
    )
    return pickles.called(pickles.named("torch._utils", "_rebuild_tensor_v2"), arguments)
