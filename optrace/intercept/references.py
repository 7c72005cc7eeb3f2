"""Names and containers that hold a builtin directly, where its early-bound calls can't be seen from below."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any

from optrace.intercept.wrappers import CallWrapper

# Writes and reads the place where a builtin is held.
Place = tuple[Callable[[Any], None], Callable[[], Any]]


class Held:
    """While applied, every dictionary, list, cell, partial or default that held ``value`` holds ``wrapper``.

    Made before anything of ours holds the value itself.
    """

    def __init__(self, value: Any) -> None:
        self.wrapper: CallWrapper | None = None
        self._undo: list[Place] = []
        holders = [h for h in gc.get_referrers(value) if not isinstance(h, types.FrameType)]
        self._places = [place for holder in holders for place in _places(holder, value)]
        self._value = value

    def apply(self) -> None:
        for put, get in self._places:
            if _reads(get) is self._value:
                put(self.wrapper)
                self._undo.append((put, get))

    def undo(self) -> None:
        while self._undo:
            put, get = self._undo.pop()
            if _reads(get) is self.wrapper:
                put(self._value)


def _reads(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except (LookupError, ValueError, AttributeError):
        return None  # the container has changed since


def _places(holder: Any, value: Any) -> Iterator[Place]:
    """Where inside ``holder`` the value sits, as far as it can be replaced there."""
    if type(holder) in (dict, list):
        keys = [k for k, v in (holder.items() if type(holder) is dict else enumerate(holder)) if v is value]
        for key in keys:
            yield functools.partial(holder.__setitem__, key), functools.partial(holder.__getitem__, key)
    elif isinstance(holder, types.CellType):
        yield functools.partial(setattr, holder, "cell_contents"), lambda: holder.cell_contents
    elif type(holder) is functools.partial and holder.func is value:
        yield functools.partial(_set_function, holder), lambda: holder.func
    elif type(holder) is tuple:
        yield from _defaults(holder, value)
    elif _plain_instance(holder):
        yield from _places(vars(holder), value)


def _plain_instance(holder: Any) -> bool:
    """Whether the attributes of ``holder`` sit in a dictionary of its own."""
    return type(vars(holder) if hasattr(holder, "__dict__") else None) is dict and not isinstance(holder, type)


def _set_function(partial: functools.partial[Any], function: Any) -> None:
    partial.__setstate__((function, partial.args, partial.keywords, vars(partial)))


def _defaults(holder: tuple[Any, ...], value: Any) -> Iterator[Place]:
    """Default arguments sit in a tuple that belongs to a function; a tuple elsewhere can't change."""
    for function in gc.get_referrers(holder):
        if isinstance(function, types.FunctionType) and function.__defaults__ is holder:
            index = next(i for i, v in enumerate(holder) if v is value)
            yield functools.partial(_set_default, function, index), functools.partial(_default, function, index)


def _default(function: types.FunctionType, index: int) -> Any:
    return (function.__defaults__ or ())[index]


def _set_default(function: types.FunctionType, index: int, value: Any) -> None:
    before = function.__defaults__ or ()
    function.__defaults__ = (*before[:index], value, *before[index + 1 :])
