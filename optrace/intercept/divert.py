"""Send every call of a Python function elsewhere without touching any reference to it.

Only ``function.__code__`` is swapped (and swapped back): the function object stays the same, so names
bound early, dictionaries keyed by it, pickles and ``is`` comparisons are not affected.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

_PLACE = "<the wrapper>"


def _template(*args: Any, **kwargs: Any) -> Any:
    return "<the wrapper>".__call__(*args, **kwargs)  # type: ignore[operator]


def trampoline(like: types.CodeType, wrapper: Callable[..., Any]) -> types.CodeType:
    """Code that passes all its arguments to ``wrapper``, with the name and place of ``like``.

    The wrapper sits among the code's constants, so the function's globals are left alone. The free
    variables of ``like`` are kept in name because a function's closure must fit its code.
    """
    code = _template.__code__
    return code.replace(
        co_consts=tuple(wrapper if c == _PLACE else c for c in code.co_consts),
        co_freevars=like.co_freevars,
        co_filename=like.co_filename,
        co_firstlineno=like.co_firstlineno,
        co_name=like.co_name,
    )


def twin(function: types.FunctionType) -> types.FunctionType:
    """A second function object that runs the code ``function`` has now."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__annotations__ = function.__annotations__
    return copy


class Diversion:
    """While applied, calls of ``function`` go to ``wrapper``; ``original`` behaves as before."""

    def __init__(self, function: types.FunctionType, wrap: Callable[[types.FunctionType], Callable[..., Any]]) -> None:
        self.function = function
        self.code = function.__code__
        self.original = twin(function)
        self.wrapper = wrap(self.original)
        self._sign = not {"__signature__", "__wrapped__"} & set(function.__dict__)

    def apply(self) -> None:
        if self._sign:
            # inspect.signature would read the trampoline's (*args, **kwargs) otherwise.
            self.function.__signature__ = inspect.signature(self.function)  # type: ignore[attr-defined]
        self.function.__code__ = trampoline(self.code, self.wrapper)

    def undo(self) -> None:
        self.function.__code__ = self.code
        if self._sign:
            self.function.__dict__.pop("__signature__", None)
