"""Being told of paddle's optimizer steps; paddle has no hooks for them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import paddle

# ``minimize`` updates parameters without passing through ``step``.
_METHODS = ("step", "minimize")


def _classes() -> Iterator[type]:
    """``Optimizer`` and everything derived from it by now."""
    seen: set[type] = set()
    stack: list[type] = [paddle.optimizer.Optimizer]
    while stack:
        cls = stack.pop()
        if cls not in seen:
            seen.add(cls)
            stack.extend(cls.__subclasses__())
            yield cls


def watch(before: Callable[[Any], None], after: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``before(optimizer)`` and ``after(optimizer)`` around every step; returns the undo.

    A step made inside another one (``super().step()``, ``minimize``) is not reported again.
    """
    inside = threading.local()
    undo: list[tuple[type, str, Any]] = []

    def told(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(inside, "on", False):
                return method(self, *args, **kwargs)
            inside.on = True
            try:
                before(self)
                result = method(self, *args, **kwargs)
                after(self)
                return result
            finally:
                inside.on = False

        return step

    for cls in _classes():
        for name in _METHODS:
            method = vars(cls).get(name)
            if callable(method):
                undo.append((cls, name, method))
                setattr(cls, name, told(method))

    def restore() -> None:
        while undo:
            cls, name, method = undo.pop()
            setattr(cls, name, method)

    return restore
