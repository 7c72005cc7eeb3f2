"""The wrapt wrappers that stand in for framework builtins and methods while a trace runs."""

from __future__ import annotations

import copy
import copyreg
import importlib
import types
from collections.abc import Callable
from typing import Any

import wrapt

from optrace.transparent import hide, transparent

# receiver(api, function, args, kwargs) makes the call and returns its result.
Receiver = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _lookup(module: str, path: str) -> Any:
    obj: Any = importlib.import_module(module)
    for part in path.split("."):
        obj = getattr(obj, part)
    return unwrapped(obj)


class _BoundWrapper(wrapt.BoundFunctionWrapper):
    """What ``tensor.add`` is; pickles and copies as the bound method it wraps."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        method: Any = self.__wrapped__
        return getattr, (method.__self__, method.__name__)

    def __copy__(self) -> Any:
        return self.__wrapped__

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self.__wrapped__, memo)


class CallWrapper(wrapt.FunctionWrapper):
    """A ``FunctionWrapper`` that pickles and copies as the function it wraps."""

    __bound_function_wrapper__ = _BoundWrapper

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


class MethodWrapper(CallWrapper):
    """Records calls made through an instance; read from the class it is the method it wraps.

    So ``torch.Tensor.add`` stays the very same object, for programs that compare or look it up and for
    torch itself, which passes it to every ``__torch_function__``.
    """

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.__wrapped__.__get__(None, owner)
        return super().__get__(instance, owner)


class PropertyWrapper(property):
    """Records reads through an instance; read from the class it is the descriptor it stands for."""

    def __init__(self, descriptor: Any, read: Callable[[Any], Any]) -> None:
        super().__init__(read, descriptor.__set__, descriptor.__delete__, descriptor.__doc__)
        self.descriptor = descriptor

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.descriptor if instance is None else super().__get__(instance, owner)


def unwrapped(value: Any) -> Any:
    """What stands behind a wrapper of ours that has been left somewhere; anything else as it is."""
    while True:
        if isinstance(value, CallWrapper):
            value = value.__wrapped__
        elif isinstance(value, PropertyWrapper):
            value = value.descriptor
        else:
            return value


def recording(
    api: str,
    shown: Callable[..., Any],
    function: Callable[..., Any],
    receiver: Receiver,
    method: bool = False,
) -> CallWrapper:
    """A wrapper that looks like ``shown`` and reports each call, made with ``function``, as ``api``."""

    @transparent
    def report(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        try:
            return receiver(api, function, (instance, *args) if method else args, kwargs)
        except BaseException as error:
            hide(error)
            raise

    return MethodWrapper(shown, report) if method else CallWrapper(shown, report)


def recording_property(api: str, descriptor: Any, receiver: Receiver) -> PropertyWrapper:
    """The like for an attribute that computes."""
    read = descriptor.__get__

    @transparent
    def report(instance: Any) -> Any:
        try:
            return receiver(api, read, (instance,), {})
        except BaseException as error:
            hide(error)
            raise

    return PropertyWrapper(descriptor, report)
