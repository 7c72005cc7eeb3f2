"""Tensors on the CPU as numpy arrays over the same memory, for reading at once and letting go."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

View = Callable[[Any], "np.ndarray | None"]
_views: dict[str, View] = {}


def view_of(framework: str) -> View:
    """The function that gives an array over a tensor's memory, or ``None`` where it takes a copy to read it."""
    if framework not in _views:
        _views[framework] = importlib.import_module(f"optrace.frameworks.{framework}_view").view
    return _views[framework]
