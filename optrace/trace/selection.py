"""Which part of a long run is recorded."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Selection(NamedTuple):
    """``steps``: so many training steps from the start (``None``: all); ``every``: each so-many-th of them.

    ``scope``: paths of modules, of which and below which calls are recorded; ``ops``: patterns of call
    names (``torch.*.linear``); either empty: all. Backward passes are recorded always.
    """

    steps: int | None = None
    every: int = 1
    scope: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()

    def wants_step(self, step: int) -> bool:
        """Whether the training step with this number (the first is 0) is recorded."""
        return (self.steps is None or step < self.steps) and step % self.every == 0

    def wants_module(self, path: str) -> bool:
        """Whether ``scope`` covers the module at ``path``."""
        return any(path == s or path.startswith(f"{s}.") for s in self.scope)

    def wants_op(self, api: str) -> bool:
        """Whether calls of that name are recorded."""
        return not self.ops or any(fnmatchcase(api, pattern) for pattern in self.ops)


EVERYTHING = Selection()
