"""Many arrays in bounded memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

from optrace.trace.shards import ShardReader, ShardWriter

Key = tuple[int, int]

# Mebibytes of values that one trace keeps in memory.
ROOM = int(os.environ.get("OPTRACE_MEMORY", "256"))


class Arrays(MutableMapping[Key, Any]):
    """Values by key. Numpy arrays beyond ``ROOM`` lie in a temporary folder, which goes when this does.

    What is not an array (a snapshot on a device), can't be written, or finds half of the disk's free
    space used up stays in memory. Arrays must not be changed afterwards. Thread-safe.
    """

    def __init__(self) -> None:
        self._memory: dict[Key, Any] = {}
        self._bytes = 0
        self._disk: _Disk | None = None
        self._lock = threading.Lock()

    def __setitem__(self, key: Key, value: Any) -> None:
        size = value.nbytes if isinstance(value, np.ndarray) else 0
        with self._lock:
            self._forget(key)
            if self._bytes + size > ROOM << 20 and size and self._write(key, value):
                return
            self._memory[key] = value
            self._bytes += size

    def __getitem__(self, key: Key) -> Any:
        found = self._memory.get(key)
        if found is None and self._disk is not None:
            found = self._disk.reader.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __delitem__(self, key: Key) -> None:
        with self._lock:
            if not self._forget(key):
                raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in self._memory or (self._disk is not None and key in self._disk.reader.places)

    def __iter__(self) -> Iterator[Key]:
        return iter([*self._memory, *(self._disk.reader.places if self._disk is not None else ())])

    def __len__(self) -> int:
        return len(self._memory) + (len(self._disk.reader.places) if self._disk is not None else 0)

    def _forget(self, key: Key) -> bool:
        if key in self._memory:
            value = self._memory.pop(key)
            self._bytes -= value.nbytes if isinstance(value, np.ndarray) else 0
            return True
        return self._disk is not None and self._disk.forget(key)

    def _write(self, key: Key, value: np.ndarray) -> bool:
        try:
            if self._disk is None:
                self._disk = _Disk()
            return self._disk.add(key, value)
        except (OSError, TypeError):
            return False


class _Disk:
    """The part that lies in a temporary folder."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="optrace-")
        path = Path(self._folder.name)
        self._room = shutil.disk_usage(path).free // 2
        self._writer = ShardWriter(path)
        self.reader = ShardReader(path, {}, cache=(ROOM << 20) // 4)

    def add(self, key: Key, value: np.ndarray) -> bool:
        if value.nbytes > self._room:
            return False
        self.reader.places[key] = self._writer.add(value)
        self._room -= value.nbytes
        return True

    def forget(self, key: Key) -> bool:
        self.reader.forget(key)
        return self.reader.places.pop(key, None) is not None
