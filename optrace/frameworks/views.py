"""Tensors on the CPU as numpy arrays over the same memory, for reading at once and letting go."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

View = Callable[[Any], "np.ndarray | None"]
Stamp = Callable[[Any], "tuple[int, bool, int] | None"]
_views: dict[str, View] = {}
_stamps: dict[str, Stamp] = {}


def view_of(framework: str) -> View:
    """The function that gives an array over a tensor's memory, or ``None`` where it takes a copy to read it."""
    if framework not in _views:
        _views[framework] = importlib.import_module(f"optrace.frameworks.{framework}_view").view
    return _views[framework]


def stamp_of(framework: str) -> Stamp:
    """The function that tells cheaply whether what is known about a tensor still holds."""
    if framework not in _stamps:
        _stamps[framework] = importlib.import_module(f"optrace.frameworks.{framework}_view").stamp
    return _stamps[framework]
