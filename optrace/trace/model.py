"""A trace in memory: calls, values, fingerprints, and the links between them."""

from __future__ import annotations

import platform
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optrace.frameworks.base import Framework
from optrace.frameworks.views import quick
from optrace.trace import sites
from optrace.trace.arguments import text_of
from optrace.trace.arrays import Arrays
from optrace.trace.fingerprint import Fingerprints, fingerprint
from optrace.trace.records import Call, Fingerprint, TensorRef

if TYPE_CHECKING:
    from optrace.trace.shards import ShardReader
    from optrace.trace.spool import Spool
from optrace.trace.training import TrainingRecord

LEVELS = ("meta", "stats", "full")


class Trace:
    """What one run recorded.

    ``level`` is ``"meta"`` (shape, dtype, identity), ``"stats"`` (a fingerprint of every tensor) or
    ``"full"`` (the values). ``inputs`` and ``outputs`` hold the model's own where they are known.
    """

    def __init__(self, level: str = "stats") -> None:
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
        self.level = level
        self.calls: list[Call] = []
        self.values: MutableMapping[tuple[int, int], Any] = Arrays()
        self.fingerprints = Fingerprints()
        self.functions: dict[str, Callable[..., Any]] = {}
        self.outputs: Any = None
        self.training = TrainingRecord()
        self.errors: Counter[str] = Counter()
        self.meta: dict[str, Any] = {
            "id": uuid.uuid4().hex,
            "created": time.time(),
            "level": level,
            "python": platform.python_version(),
            "argv": list(sys.argv),
            "versions": {},
        }
        self.spool: Spool | None = None  # where a running trace is written to
        self.stored: ShardReader | Spool | None = None  # values that are not in memory
        self._frameworks: dict[tuple[int, int], Framework] = {}
        self._children: dict[int, list[Call]] | None = None
        self._array_uids = 0

    def __len__(self) -> int:
        return len(self.calls)

    # -- recording -------------------------------------------------------------------------------

    def append(self, call: Call) -> None:
        call.owner = self
        self.calls.append(call)
        self._children = None
        if self.spool is not None:
            self.spool.begin(call)

    def finish(self, call: Call, function: Callable[..., Any]) -> None:
        """The call has returned; its outputs are in."""
        self.functions.setdefault(call.api, function)
        if self.spool is not None:
            self.spool.end(call)

    def fail(self, call: Call) -> None:
        """The call has raised; ``call.error`` says what."""
        if self.spool is not None:
            self.spool.end(call)

    def keep(self, ref: TensorRef, framework: Framework, tensor: Any) -> None:
        """Keep the tensor's values as they are now."""
        try:
            # One copy is enough where numpy can read the memory; elsewhere a snapshot stays on the device.
            value = framework.to_numpy(tensor) if ref.device == "cpu" else framework.snapshot(tensor)
        except TypeError:
            return  # no readable values: a meta, fake or batched tensor
        if self.spool is not None:
            size = value.nbytes if isinstance(value, np.ndarray) else ref.size * 8
            self.spool.value(ref.key, framework, value, size)
        else:
            self.values[ref.key] = value
            self._frameworks[ref.key] = framework

    def summarise(self, ref: TensorRef, framework: Framework, tensor: Any) -> None:
        """Keep a fingerprint of the tensor's values as they are now."""
        try:
            array = quick[framework.name].view(tensor)
            self._add_stats(ref, framework.to_numpy(tensor) if array is None else array)
        except TypeError:
            pass  # no readable values

    def _add_stats(self, ref: TensorRef, array: np.ndarray) -> None:
        finished = self.fingerprints.take(ref.key, array)
        if self.spool is not None:
            for key, found in finished:
                self.spool.stats(key, found)

    def array(self, array: np.ndarray) -> TensorRef:
        """A numpy argument, recorded as a tensor of its own with a negative uid."""
        self._array_uids -= 1
        ref = TensorRef(self._array_uids, 0, tuple(array.shape), str(array.dtype), "numpy")
        if self.level == "full":
            if self.spool is not None:
                self.spool.value(ref.key, None, array.copy(), array.nbytes)
            else:
                self.values[ref.key] = array.copy()
        elif self.level == "stats" and array.dtype.kind in "biufc":
            self._add_stats(ref, array)
        return ref

    def end_with(self, error: BaseException) -> None:
        """The run ended with an exception of the program's: which, and at which of its lines."""
        site = sites.of_error(error)
        self.meta["ended"] = f"{type(error).__name__}: {text_of(error)}"
        self.meta["ended_at"] = f"{site} in {site.function}" if site is not None else ""

    def count_error(self, where: str, error: BaseException) -> None:
        """An error of ours that was kept from the program."""
        self.errors[f"{where}: {type(error).__name__}: {text_of(error)}"[:300]] += 1

    def full_meta(self) -> dict[str, Any]:
        """What is stored about the run as a whole."""
        return {**self.meta, "training": self.training.plain()} if self.training else dict(self.meta)

    # -- reading ---------------------------------------------------------------------------------

    def holds(self, key: tuple[int, int]) -> bool:
        """Whether the values of that tensor are kept."""
        return key in self.values or (self.stored is not None and self.stored.holds(key))

    def value(self, ref: TensorRef) -> np.ndarray | None:
        """The tensor's values, ``None`` where this trace does not hold them.

        Raises ``TraceError`` when they are on disk and can't be read.
        """
        return self.value_of(ref.key)

    def value_of(self, key: tuple[int, int]) -> np.ndarray | None:
        """The like, by ``(uid, version)``."""
        found = self.values.get(key)
        if found is None:
            return self.stored.get(key) if self.stored is not None else None
        if not isinstance(found, np.ndarray):
            try:
                found = self._frameworks[key].to_numpy(found)
            except TypeError:
                return None
            self.values[key] = found
        return found

    def value_keys(self) -> list[tuple[int, int]]:
        """``(uid, version)`` of every tensor whose values are kept."""
        return list(dict.fromkeys([*(self.stored.places if self.stored is not None else ()), *self.values]))

    def stats(self, ref: TensorRef) -> Fingerprint | None:
        """The tensor's fingerprint, computed from the values at level ``full``."""
        key = ref.key
        found = self.fingerprints.get(key)
        if found is None:
            value = self.value(ref)
            if value is not None:
                found = self.fingerprints[key] = fingerprint(value)
        return found

    def children_of(self, id_: int) -> list[Call]:
        """Calls made directly inside call ``id_`` (``-1``: those at the top)."""
        if self._children is None:
            self._children = {}
            for call in self.calls:
                self._children.setdefault(call.parent, []).append(call)
        return self._children.get(id_, [])

    def bind(self, call: Call) -> dict[str, Any]:
        """The call's arguments by canonical parameter name."""
        from optrace.ops import bind

        return bind(call.via or call.api, call.positional, call.keyword)

    @property
    def frameworks(self) -> tuple[str, ...]:
        return tuple(sorted({c.framework for c in self.calls}))

    def _repr_html_(self) -> str:
        """The trace in a notebook."""
        from optrace.trace.table import as_html

        return as_html(self)

    def save(self, path: str | Path) -> None:
        """Write the trace as a folder. Raises ``TraceError`` when that can't be done."""
        from optrace.trace.store import write

        write(self, Path(path))
