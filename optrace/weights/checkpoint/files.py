"""A checkpoint by its path: one file, an index of shards, or a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from optrace.errors import ConversionError
from optrace.weights.checkpoint import paddle_file, safetensors_file, torch_file
from optrace.weights.checkpoint.entry import Contents, Entry

Reader = Callable[[Path], Contents]
_READERS: dict[str, Reader] = {
    ".safetensors": safetensors_file.read,
    ".pdparams": paddle_file.read,
    **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), torch_file.read),
}
_WRITERS: dict[str, Callable[[Path, Iterable[Entry], Any], None]] = {
    ".safetensors": safetensors_file.write,
    ".pdparams": paddle_file.write,
    **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), torch_file.write),
}
FORMATS = {
    "safetensors": ".safetensors",
    "pdparams": ".pdparams",
    "paddle": ".pdparams",
    "torch": ".bin",
    "bin": ".bin",
    "pt": ".pt",
    "pth": ".pth",
}
_INDEX = ".index.json"


def read(path: Path) -> Contents:
    """All tensors of a checkpoint. Raises ``ConversionError`` if it can't be read or has a name twice."""
    if not path.exists():
        raise ConversionError(f"there is no checkpoint at {path}")
    files = _shards(path)
    entries: dict[str, Entry] = {}
    others: list[str] = []
    for file in files:
        reader = _READERS.get(file.suffix)
        if reader is None:
            raise ConversionError(f"{file} is no checkpoint of a known kind ({', '.join(_READERS)})")
        contents = reader(file)
        others.extend(contents.others)
        for entry in contents.entries:
            if entry.name in entries:
                raise ConversionError(f"{entry.name!r} is in more than one shard of {path}")
            entries[entry.name] = entry
    return Contents(tuple(entries.values()), tuple(others))


def _shards(path: Path) -> list[Path]:
    if path.is_dir():
        for found in (sorted(path.glob(f"*{_INDEX}")), *(sorted(path.glob(f"*{s}")) for s in _READERS)):
            if len(found) == 1 or (found and not found[0].name.endswith(_INDEX)):
                return _shards(found[0]) if len(found) == 1 else found
        raise ConversionError(f"{path} holds no checkpoint or more than one index")
    if not path.name.endswith(_INDEX):
        return [path]
    try:
        names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError) as error:
        raise ConversionError(f"{path} is no index of shards: {error!r}") from error
    files = [path.parent / Path(str(name)).name for name in names]
    try:
        missing = [f.name for f in files if not f.is_file()]
    except (OSError, ValueError) as error:
        raise ConversionError(f"{path} names a shard that can't be: {error}") from error
    if missing:
        raise ConversionError(f"{path} names shards that are not there: {', '.join(missing)[:300]}")
    return files


def target(path: Path, to: str | None) -> Path:
    """The file to write: ``path`` with the suffix of the format ``to`` where it has none."""
    if to is not None and to not in FORMATS:
        raise ConversionError(f"unknown format {to!r}; choose from {', '.join(FORMATS)}")
    suffix = FORMATS[to] if to is not None else path.suffix
    if suffix not in _WRITERS:
        raise ConversionError(f"{path}: can't tell the format; end the name in {', '.join(_WRITERS)}")
    return (
        path
        if path.suffix in _WRITERS and to is None
        else path.with_suffix(suffix)
        if path.suffix in _WRITERS
        else (path.with_name(path.name + suffix))
    )


def write(path: Path, entries: Iterable[Entry], progress: Any = None) -> None:
    """Write a checkpoint beside its final name, then move it there: no half-written file is ever found."""
    part = path.with_name(path.name + ".part" + path.suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _WRITERS[path.suffix](part, entries, progress)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
