"""A long trace in pieces, so that comparing it needs the memory of a few pieces only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from optrace.trace.model import Trace
from optrace.trace.naming import promote
from optrace.trace.reading import growing
from optrace.trace.records import Call
from optrace.trace.writer import CALLS

# A value that nothing has used for so many windows is let go.
KEPT = 4
# How many further calls are read before a call is looked at: fingerprints of small tensors come later (see ``spool``).
AHEAD = 4096
# Longer traces are better read as a stream: so many bytes are some 50,000 calls.
LONG = 20 << 20


def is_long(folder: Path) -> bool:
    """Whether the trace in ``folder`` had better be read in pieces."""
    path = folder / CALLS
    return path.is_file() and path.stat().st_size > LONG


class Stream:
    """The calls of a trace, some at a time. ``trace`` has what is known about the run and the calls that wait.

    ``source``: the folder of a saved trace, or a trace. ``leaving`` sees each piece before it is let go. Raises ``TraceError``, at any time, when the folder
    can't be read.
    """

    def __init__(self, source: Trace | Path, leaving: Callable[[Trace], None] | None = None) -> None:
        self._leaving = leaving
        self._stored = isinstance(source, Path)
        if isinstance(source, Path):
            self.trace, self._calls = growing(source)
        else:
            self.trace = _like(source, [])
            self._calls = self._add_from(source.calls)
        self._read_all = False
        self._used: dict[tuple[int, int], int] = {}
        self._age = 0

    def waiting(self, count: int) -> Trace:
        """The next calls as a trace of their own: ``count`` of them, or all that are left."""
        calls = self.trace.calls
        before = len(calls)
        while len(calls) < count + AHEAD and not self._read_all:
            self._read_all = next(self._calls, None) is None
        if self._stored:
            promote(islice(calls, before, None))
        return _like(self.trace, calls[:count])

    def ends_within(self, count: int) -> bool:
        """Whether at most ``count`` calls are left; to be asked when they wait."""
        return self._read_all and len(self.trace.calls) <= count

    def drop(self, count: int, used: Iterable[tuple[int, int]]) -> None:
        """The first ``count`` calls are done with. ``used``: keys of values that were looked at."""
        if self._leaving is not None:
            self._leaving(_like(self.trace, self.trace.calls[:count]))
        del self.trace.calls[:count]
        self._age += 1
        self._used.update(dict.fromkeys(used, self._age))
        if self._stored:
            for key in [k for k, age in self._used.items() if age <= self._age - KEPT]:
                del self._used[key]
                self.trace.fingerprints.pop(key, None)

    def _add_from(self, calls: list[Call]) -> Iterator[Call]:
        for call in calls:
            self.trace.calls.append(call)
            yield call


def _like(trace: Trace, calls: list[Call]) -> Trace:
    """Another trace of the same run and values, with these calls."""
    other = Trace(trace.level)
    other.meta, other.values, other.fingerprints = trace.meta, trace.values, trace.fingerprints
    other.stored, other.outputs, other.errors = trace.stored, trace.outputs, trace.errors
    other.calls = calls
    return other
