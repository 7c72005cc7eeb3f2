"""Which tensor is which: a number per tensor object, a path per parameter and buffer."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from optrace.frameworks.base import Framework
from optrace.trace.records import TensorRef


class Identities:
    """Numbers tensor objects as they are met; forgets them when they die, never keeps them alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._count = itertools.count(1)
        # What the frameworks' own version counters miss: fused optimizers, paddle's set_value, statistics.
        self.extra: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._refs: dict[int, tuple[weakref.ref[Any], Any, int, TensorRef]] = {}

    def uid(self, tensor: Any) -> int:
        found = self._known.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        number = next(self._count)
        self._known[id(tensor)] = (weakref.ref(tensor), number)
        return number

    def ref(self, tensor: Any, stamp: Any) -> TensorRef | None:
        """The reference made for ``tensor`` earlier, while its ``stamp`` is the same."""
        known = self._refs.get(id(tensor))
        if known is None or known[0]() is not tensor or known[1] != stamp:
            return None
        ref = known[3]
        extra = self.extra
        return ref if not extra or extra.get(ref.uid, 0) == known[2] else None

    def remember(self, tensor: Any, stamp: Any, ref: TensorRef) -> None:
        """Give ``ref`` again until the stamp changes."""
        self._refs[id(tensor)] = (self._known[id(tensor)][0], stamp, self.extra.get(ref.uid, 0), ref)

    def version(self, framework: Framework, tensor: Any, uid: int) -> int:
        """Which of the values of ``tensor`` this is; goes up with every in-place change that was noticed."""
        return framework.inplace_version(tensor) + self.extra.get(uid, 0)

    def refresh(self, uid: int) -> None:
        """``tensor`` was changed in a way that its version counter does not show."""
        self.extra[uid] = self.extra.get(uid, 0) + 1

    def due(self, uid: int, epoch: int) -> bool:
        """Whether ``uid`` is met for the first time in ``epoch``."""
        if self._seen.get(uid) == epoch:
            return False
        self._seen[uid] = epoch
        return True

    def name(self, tensor: Any, path: str) -> None:
        """Call ``tensor`` by its ``path``; the first name given wins."""
        if self.path(tensor) is None:
            self._paths[id(tensor)] = (weakref.ref(tensor), path)
            self._refs.pop(id(tensor), None)

    def path(self, tensor: Any) -> str | None:
        found = self._paths.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None
