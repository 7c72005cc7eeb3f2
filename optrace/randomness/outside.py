"""Draws from numpy's and Python's global generators, which data augmentation uses."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from optrace.trace.records import Site

_SEEDS = ("seed", "setstate", "set_state", "getstate", "get_state")


class OutsideDraw(NamedTuple):
    """``library``: ``"numpy"`` or ``"python"``."""

    library: str
    api: str
    site: Site | None
    seeded: bool


@contextmanager
def outside_draws() -> Iterator[list[OutsideDraw]]:
    """Every call of the global generators' functions made inside, in order."""
    found: list[OutsideDraw] = []
    seeded: set[str] = set()
    undo: list[tuple[Any, str, Any]] = []
    for library, owner, prefix in (("numpy", np.random, "numpy.random"), ("python", random, "random")):
        for name, function in _methods(library, owner):
            undo.append((owner, name, function))
            setattr(owner, name, _watched(function, library, f"{prefix}.{name}", found, seeded))
    try:
        yield found
    finally:
        for owner, name, function in undo:
            setattr(owner, name, function)


def _methods(library: str, owner: Any) -> list[tuple[str, Callable[..., Any]]]:
    """The module's functions that are bound methods of its one global generator."""
    kind = type(np.random.mtrand._rand) if library == "numpy" else random.Random
    found = []
    for name, value in vars(owner).items():
        bound = isinstance(getattr(value, "__self__", None), kind)
        if not name.startswith("_") and (bound or (name == "seed" and callable(value))):
            found.append((name, value))
    return found


def _watched(
    function: Callable[..., Any], library: str, api: str, found: list[OutsideDraw], seeded: set[str]
) -> Callable[..., Any]:
    name = api.rpartition(".")[2]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "seed":
            seeded.add(library)
        elif name not in _SEEDS:
            frame = sys._getframe(1)
            code = frame.f_code
            site = Site(code.co_filename, frame.f_lineno, code.co_name)
            found.append(OutsideDraw(library, api, site, library in seeded))
        return function(*args, **kwargs)

    return call
