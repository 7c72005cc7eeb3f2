"""Send every call of a Python function elsewhere without touching any reference to it.

Only ``function.__code__`` is swapped (and swapped back): the function object stays the same, so names
bound early, dictionaries keyed by it, pickles and ``is`` comparisons are not affected.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any

from optrace.transparent import FILE, hide

_signatures: weakref.WeakKeyDictionary[types.FunctionType, inspect.Signature | None] = (
    weakref.WeakKeyDictionary()
)


def _template(*args: Any, **kwargs: Any) -> Any:
    receiver: Any = "<receiver>"
    try:
        return receiver("<original>", args, kwargs)
    except BaseException as error:
        receiver = "<hide>"
        receiver(error)
        raise


def trampoline(
    like: types.CodeType, receiver: Callable[..., Any], original: Callable[..., Any]
) -> types.CodeType:
    """Code that hands ``original`` and all its arguments to ``receiver``, under the name of ``like``.

    The objects it needs sit among the code's constants, so the function's globals are left alone. The
    free variables of ``like`` are kept in name because a function's closure must fit its code.
    """
    code = _template.__code__
    filled = {"<receiver>": receiver, "<original>": original, "<hide>": hide}
    return code.replace(
        co_consts=tuple(filled.get(c, c) if isinstance(c, str) else c for c in code.co_consts),
        co_freevars=like.co_freevars,
        co_filename=FILE,
        co_name=like.co_name,
        co_qualname=like.co_qualname,
    )


def twin(function: types.FunctionType) -> types.FunctionType:
    """A second function object that runs the code ``function`` has now."""
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__annotations__ = function.__annotations__
    return copy


def _signature(function: types.FunctionType) -> inspect.Signature | None:
    if function not in _signatures:
        try:
            _signatures[function] = inspect.signature(function)
        except (TypeError, ValueError):
            _signatures[function] = None
    return _signatures[function]


class Diversion:
    """While applied, calls of ``function`` become ``receiver(original, args, kwargs)``.

    ``original`` is another function object that behaves as ``function`` did before.
    """

    def __init__(self, function: types.FunctionType, receiver: Callable[..., Any]) -> None:
        self.function = function
        self.original = twin(function)
        self._before = function.__code__
        self._after = trampoline(self._before, receiver, self.original)
        # inspect.signature would read (*args, **kwargs) off the trampoline.
        self._sign = (
            None if {"__signature__", "__wrapped__"} & set(function.__dict__) else _signature(function)
        )

    def apply(self) -> None:
        if self._sign is not None:
            self.function.__signature__ = self._sign  # type: ignore[attr-defined]
        self.function.__code__ = self._after

    def undo(self) -> None:
        if self.function.__code__ is self._after:  # else somebody has given it other code meanwhile
            self.function.__code__ = self._before
        if self._sign is not None and self.function.__dict__.get("__signature__") is self._sign:
            del self.function.__dict__["__signature__"]
