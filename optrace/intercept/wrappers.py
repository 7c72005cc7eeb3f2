"""The wrapt wrappers that stand in for framework callables while a trace runs."""

from __future__ import annotations

import copyreg
import importlib
import types
from collections.abc import Callable
from typing import Any, Protocol

import wrapt


class Observer(Protocol):
    """Who is told of the calls. Each method makes the call itself and returns its result."""

    def call(self, api: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any: ...


def _lookup(module: str, path: str) -> Any:
    obj: Any = importlib.import_module(module)
    for part in path.split("."):
        obj = getattr(obj, part)
    return obj.__wrapped__ if isinstance(obj, CallWrapper) else obj


class CallWrapper(wrapt.FunctionWrapper):
    """A ``FunctionWrapper`` that pickles and copies as the function it wraps."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        original = self.__wrapped__
        reduced = original.__reduce_ex__(protocol) if not isinstance(original, types.FunctionType) else None
        if isinstance(reduced, tuple):
            return reduced
        return _lookup, (original.__module__, original.__qualname__)

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(copyreg.dispatch_table.get(type(self), 2))

    def __copy__(self) -> Any:
        return self.__wrapped__

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__wrapped__


def recording(api: str, function: Callable[..., Any], observer: Observer) -> CallWrapper:
    """A wrapper of ``function`` that reports each call as ``api``."""
    record = observer.call

    def report(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if instance is None or isinstance(function, types.BuiltinFunctionType):
            return record(api, function, args, kwargs)
        return record(api, function, (instance, *args), kwargs)

    return CallWrapper(function, report)
