"""Streams a running trace to disk: records at once, large values through a background thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrace.frameworks.base import Framework
from optrace.trace.records import Call, Fingerprint
from optrace.trace.shards import Place, ShardReader
from optrace.trace.writer import Writer

if TYPE_CHECKING:
    from optrace.trace.model import Trace

# Values up to this many bytes are written by the thread that made the call.
SMALL = 1 << 15
# Bytes that wait to be written at most; then calls wait for the disk.
MAX_WAITING = 256 << 20

# After so many calls no fingerprint waits any longer.
FLUSH = 2048

Key = tuple[int, int]


class Spool:
    """Writes what it is told to ``folder``. Values are no longer kept in memory once they are written."""

    def __init__(self, folder: Path, trace: Trace, quietly: Callable[..., Any]) -> None:
        self.writer = Writer(folder, trace.meta)
        self.stored = ShardReader(folder, self.writer.places)
        self._quietly = quietly
        self._trace = trace
        self._changed = threading.Condition()
        self._queue: deque[Key] = deque()
        self._waiting: dict[Key, tuple[Framework | None, Any, int]] = {}
        self._bytes = 0
        self._open = True
        self._thread: threading.Thread | None = None
        self._names: dict[int, tuple[str, str | None]] = {}

    def begin(self, call: Call) -> None:
        self.writer.begin(call)

    def end(self, call: Call) -> None:
        self._names[call.id] = (call.api, call.via)
        self.writer.end(call)
        if call.id % FLUSH == 0:
            self._write_stats()

    def stats(self, key: Key, found: Fingerprint) -> None:
        self.writer.stats(key, found)

    def value(self, key: Key, framework: Framework | None, value: Any, size: int) -> None:
        """Store a value of ``size`` bytes: an array, or a snapshot that ``framework`` can read."""
        if self.writer.failed is not None:
            return
        if size <= SMALL and isinstance(value, np.ndarray) and self.writer.value(key, value, wait=False):
            return
        with self._changed:
            while self._bytes and self._bytes + size > MAX_WAITING and self._thread is not None:
                self._changed.wait()
            self._waiting[key] = (framework, value, size)
            self._queue.append(key)
            self._bytes += size
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._quietly, args=(self._loop, (), {}), daemon=True)
                self._thread.name = "optrace-writer"
                self._thread.start()

    @property
    def places(self) -> dict[Key, Place]:
        return self.writer.places

    def holds(self, key: Key) -> bool:
        """Whether the value is on disk or on its way there."""
        return key in self._waiting or key in self.writer.places

    def get(self, key: Key) -> np.ndarray | None:
        """The value, from where it is now."""
        found = self._waiting.get(key)
        if found is None:
            return self.stored.get(key)
        framework, value, _ = found
        return _array(framework, value)

    def finish(self) -> None:
        """Wait for the values, write what has changed since, and close the files."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        trace, writer = self._trace, self.writer
        self._write_stats()
        for call in trace.calls:
            if self._names.get(call.id, (call.api, call.via)) != (call.api, call.via):
                writer.rename(call)
        if writer.left_out:
            trace.errors[
                f"{writer.left_out} values were not stored: no room on the disk, or a dtype of its own"
            ] += 1
        writer.finish(trace.full_meta(), trace.outputs, trace.errors)

    def _write_stats(self) -> None:
        for key, found in self._trace.fingerprints.finish():
            self.writer.stats(key, found)

    # -- the background thread -------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._queue and self._open:
                    self._changed.wait()
                if not self._queue:
                    return
                key = self._queue.popleft()
                framework, value, size = self._waiting[key]
            try:
                self.writer.value(key, _array(framework, value))
            except Exception as error:
                self._trace.count_error("storing a value", error)
            with self._changed:
                del self._waiting[key]
                self._bytes -= size
                self._changed.notify_all()
            value = None  # an idle thread keeps nothing alive


def _array(framework: Framework | None, value: Any) -> np.ndarray:
    """An array as it is, a snapshot by its framework."""
    return value if framework is None or isinstance(value, np.ndarray) else framework.to_numpy(value)
