"""Names and containers that hold a builtin directly, where its early-bound calls can't be seen from below."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from optrace.intercept.wrappers import CallWrapper

# Writes and reads the place where a builtin is held.
Place = tuple[Callable[[Any], None], Callable[[], Any]]


class Held:
    """While applied, the ``places`` that hold ``value`` hold ``wrapper``."""

    def __init__(self, value: Any, wrapper: CallWrapper, places: list[Place]) -> None:
        self._value, self._wrapper = value, wrapper
        self._places = places
        self._undo: list[Place] = []

    def apply(self) -> None:
        for put, get in self._places:
            if _reads(get) is self._value:
                put(self._wrapper)
                self._undo.append((put, get))

    def undo(self) -> None:
        while self._undo:
            put, get = self._undo.pop()
            if _reads(get) is self._wrapper:
                put(self._value)


def _reads(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except (LookupError, ValueError, AttributeError):
        return None  # the container has changed since


def places_of(values: list[Any]) -> dict[int, list[Place]]:
    """For each value, by its id, every dictionary, list, cell, partial and default argument that holds it.

    To be asked before anything of ours holds the values: each pass goes through all objects there are.
    """
    found: dict[int, list[Place]] = {id(value): [] for value in values}
    holders = [h for h in gc.get_referrers(*values) if h is not values and not isinstance(h, types.FrameType)]
    tuples = [h for h in holders if type(h) is tuple]
    # Default arguments sit in a tuple that belongs to a function; a tuple elsewhere can't change.
    functions = [
        f for f in (gc.get_referrers(*tuples) if tuples else ()) if isinstance(f, types.FunctionType)
    ]
    for value in values:
        for holder in holders:
            found[id(value)].extend(_places(holder, value))
        for function in functions:
            for index, default in enumerate(function.__defaults__ or ()):
                if default is value:
                    found[id(value)].append(
                        (partial(_set_default, function, index), partial(_default, function, index))
                    )
    return found


def _places(holder: Any, value: Any) -> Iterator[Place]:
    """Where inside ``holder`` the value sits, as far as it can be replaced there."""
    if type(holder) in (dict, list):
        keys = [k for k, v in (holder.items() if type(holder) is dict else enumerate(holder)) if v is value]
        for key in keys:
            yield partial(holder.__setitem__, key), partial(holder.__getitem__, key)
    elif isinstance(holder, types.CellType):
        yield partial(setattr, holder, "cell_contents"), lambda: holder.cell_contents
    elif type(holder) is partial and holder.func is value:
        yield partial(_set_function, holder), lambda: holder.func
    elif _plain_instance(holder):
        yield from _places(vars(holder), value)


def _plain_instance(holder: Any) -> bool:
    """Whether the attributes of ``holder`` sit in a dictionary of its own."""
    return type(vars(holder) if hasattr(holder, "__dict__") else None) is dict and not isinstance(
        holder, type
    )


def _set_function(holder: partial[Any], function: Any) -> None:
    holder.__setstate__((function, holder.args, holder.keywords, vars(holder)))  # type: ignore[attr-defined]


def _default(function: types.FunctionType, index: int) -> Any:
    return (function.__defaults__ or ())[index]


def _set_default(function: types.FunctionType, index: int, value: Any) -> None:
    before = function.__defaults__ or ()
    function.__defaults__ = (*before[:index], value, *before[index + 1 :])
