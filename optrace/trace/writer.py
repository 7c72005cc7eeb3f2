"""Writes a trace folder record by record. See docs/trace-format.md."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from optrace.errors import TraceError
from optrace.trace.frames import MAGIC, MAX_FRAME, frame, write_all
from optrace.trace.records import Call, Fingerprint, Opaque, Site, TensorRef
from optrace.trace.shards import Place, ShardWriter
from optrace.trace.wire import Packer

FORMAT = "optrace-trace"
VERSION = 1
CALLS, META = "calls.bin", "meta.json"
# What is known when a call starts; the rest is written when it is over.
AT_START = (
    "api", "framework", "positional", "keyword", "module", "module_type", "parent", "phase", "step", "thread",
    "context",
)  # fmt: skip
AT_END = tuple(f for f in Call.__struct_fields__ if f not in (*AT_START, "id", "site", "owner"))
# Those that may be changed after the call is over.
RENAMED = ("api", "via")


class Writer:
    """Appends to ``folder``, which must be absent, empty, or an older trace (which is replaced).

    Thread-safe. When the disk is full, ``failed`` holds the error, the files end with the last complete
    record, and everything that follows is left out. Raises ``TraceError`` when the folder can't be used.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        self.folder = folder
        self.failed: OSError | None = None
        self.places: dict[tuple[int, int], Place] = {}  # of the values that are stored
        self.left_out = 0  # values for which there was no room
        self._lock = threading.RLock()
        self._shard_lock = threading.Lock()
        self._tensors: dict[int, tuple[int, TensorRef]] = {}
        self._sites: dict[Site, int] = {}
        self._packer = Packer(self._tensor)
        self._encode = msgspec.msgpack.Encoder().encode
        self._pending = bytearray()
        self._summary = {k: v for k, v in meta.items() if k in ("id", "created", "level", "python", "argv")}
        try:
            prepare(folder)
            self._write_summary(complete=False)
            self._file = os.open(
                folder / CALLS,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0),
                0o666,
            )
            write_all(self._file, MAGIC)
            # Half of what is free, so that a long run does not take the disk away from the program.
            self._room = shutil.disk_usage(folder).free // 2
        except OSError as error:
            raise TraceError(f"the trace can't be written to {folder}: {error}") from error
        self._length = len(MAGIC)
        self._shards = ShardWriter(folder)
        with self._lock:
            self._add("fields", list(AT_START), list(AT_END))
            self._flush()
        self.meta(meta)

    # -- records ---------------------------------------------------------------------------------

    def meta(self, meta: Mapping[str, Any]) -> None:
        """What is known about the run so far; the last one written counts."""
        with self._lock:
            self._add("meta", self._packer.pack(dict(meta)))
            self._flush()

    def begin(self, call: Call) -> None:
        """A call is about to be made."""
        with self._lock:
            self._add("call", call.id, self._site(call.site), self._fields(call, AT_START))
            self._flush()

    def end(self, call: Call) -> None:
        """A call is over, one way or the other."""
        with self._lock:
            self._add("end", call.id, self._fields(call, AT_END))
            self._flush()

    def rename(self, call: Call) -> None:
        """The name of a call that is over has changed."""
        with self._lock:
            self._add("name", call.id, call.api, call.via)
            self._flush()

    def stats(self, key: tuple[int, int], found: Fingerprint) -> None:
        with self._lock:
            self._add("stats", *key, found)
            self._flush()

    def value(self, key: tuple[int, int], array: np.ndarray, wait: bool = True) -> bool:
        """Store a tensor's values; ``False`` when another thread is storing some and ``wait`` is false.

        Values of a dtype that can't be stored (objects, texts) are left out.
        """
        if not self._shard_lock.acquire(blocking=wait):
            return False
        try:
            if self.failed is None:
                self._value(key, array)
        except TypeError:
            self.left_out += 1
        except OSError as error:
            self.failed = error
        finally:
            self._shard_lock.release()
        return True

    def finish(self, meta: Mapping[str, Any], outputs: Any, errors: Mapping[str, int]) -> None:
        """Everything is in: mark the folder complete and close it."""
        with self._lock, self._shard_lock:
            self._add("finish", self._packer.pack(dict(meta)), self._packer.pack(outputs), dict(errors))
            self._flush()
            os.close(self._file)
            self._shards.close()
            if self.failed is None:
                try:
                    self._write_summary(complete=True)
                except OSError as error:
                    self.failed = error

    # -- inside ----------------------------------------------------------------------------------

    def _value(self, key: tuple[int, int], array: np.ndarray) -> None:
        if array.nbytes > self._room:
            self.left_out += 1
            return
        place = self._shards.add(array)
        self._room -= array.nbytes
        with self._lock:
            self._add("value", *key, *place)
            self._flush()
        self.places[key] = place

    def _fields(self, call: Call, names: tuple[str, ...]) -> list[Any]:
        pack = self._packer.pack
        return [pack(getattr(call, name)) for name in names]

    def _tensor(self, ref: TensorRef) -> int:
        """The number of ``ref``, described at first use. Equal objects may have several."""
        known = self._tensors.get(id(ref))
        if known is None:
            known = self._tensors[id(ref)] = (len(self._tensors), ref)
            self._add("tensor", known[0], *(getattr(ref, name) for name in TensorRef.__struct_fields__))
        return known[0]

    def _site(self, site: Site | None) -> int:
        if site is None:
            return -1
        index = self._sites.get(site)
        if index is None:
            index = self._sites[site] = len(self._sites)
            text = self._packer.pack
            self._add("site", index, text(site.file), site.line, text(site.function), text(site.code))
        return index

    def _add(self, *record: Any) -> None:
        payload = self._encode(record)
        if len(payload) > MAX_FRAME:
            payload = self._encode(self._shortened(record, len(payload)))
        self._pending += frame(payload)

    @staticmethod
    def _shortened(record: tuple[Any, ...], size: int) -> Any:
        """A record without the arguments that make it too long to store."""
        left_out = Packer(lambda ref: 0).pack(Opaque("too long", f"{size:,} bytes were not stored"))
        if record[0] == "call":
            fields = list(record[3])
            fields[AT_START.index("positional")] = [left_out]
            fields[AT_START.index("keyword")] = {}
            return [*record[:3], fields]
        if record[0] == "end":
            fields = list(record[2])
            fields[AT_END.index("outputs")] = left_out
            return [*record[:2], fields]
        raise TraceError(f"a record of {size:,} bytes is too long to store")

    def _flush(self) -> None:
        data, self._pending = self._pending, bytearray()
        if self.failed is not None:
            return
        try:
            write_all(self._file, data)
            self._length += len(data)
        except OSError as error:
            self.failed = error
            os.ftruncate(self._file, self._length)

    def _write_summary(self, complete: bool) -> None:
        text = json.dumps(
            {"format": FORMAT, "version": VERSION, "complete": complete, **self._summary},
            indent=1,
            default=str,
        )
        partial = self.folder / f"{META}.{os.getpid()}.partial"
        partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        partial.replace(self.folder / META)


def is_trace_file(name: str) -> bool:
    """Whether a trace folder holds files of that name."""
    return (
        name in (CALLS, META)
        or (name.startswith("values-") and name.endswith(".safetensors"))
        or (name.startswith(META) and name.endswith(".partial"))
    )


def prepare(folder: Path) -> None:
    """Make ``folder`` an empty one. An older trace in it goes; raises ``TraceError`` for anything else."""
    if folder.is_symlink() or folder.exists():
        if not folder.is_dir():
            raise TraceError(f"{folder} is a file; give a folder for the trace")
        names = os.listdir(folder)
        others = [name for name in names if not is_trace_file(name)]
        if others or (names and META not in names):
            raise TraceError(f"{folder} holds other files ({(others or names)[0]}); give a folder of its own")
        for name in sorted(names):
            (folder / name).unlink()
    folder.mkdir(parents=True, exist_ok=True)
