"""Quick looks at tensors, for the hot path: what is known still holds, and memory as numpy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Quick(NamedTuple):
    """Functions of one framework that look at a tensor without a detour; to be called in its ``aside()``.

    ``tensors``: exact types of ordinary tensors. ``view``: an array over a CPU tensor's memory, for reading at
    once and letting go, ``None`` where it takes a copy to read it. ``stamp``: what changes when a tensor's
    description does, ``None`` for odd ones. ``version``: its count of in-place changes.
    """

    tensors: frozenset[type]
    view: Callable[[Any], np.ndarray | None]
    stamp: Callable[[Any], tuple[int, bool, int] | None]
    version: Callable[[Any], int]


class _Quicks(dict[str, Quick]):
    """The functions for ``"torch"`` and ``"paddle"``, each imported when it is first asked for."""

    def __missing__(self, framework: str) -> Quick:
        module = importlib.import_module(f"optrace.frameworks.{framework}_view")
        found = self[framework] = Quick(module.TENSORS, module.view, module.stamp, module.version)
        return found


quick = _Quicks()
