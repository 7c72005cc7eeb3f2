"""The ``TorchFunctionMode`` that sees torch's builtins, subscripts and views by attribute.

A builtin is never replaced in its namespace: the mode sees it under whatever name it is called, and
``activation is F.gelu`` stays true.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.overrides
from torch._C import _is_torch_function_enabled
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode,
    _len_torch_function_stack,
    _pop_mode,
    _push_mode,
    resolve_name,
)

from optrace.frameworks.base import Net
from optrace.frameworks.torch_targets import NOT_OP_DUNDERS, NOT_OPS, VIEW_PROPERTIES, builtin_names
from optrace.transparent import hide, transparent

# What torch's Python functions ask before they run their body, and layers before they take a fused path.
_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
# What a subclass has that leaves everything to torch.
_DEFAULT = (torch.Tensor.__torch_function__.__func__, None)
# Private functions that ask or arrange something.
_PRIVATE_NOT_OPS = tuple(
    "_is_ _has_ _use_ _get_ _set_ _make_ _debug_ _assert_ _sync _jit_ _propagate".split()
)


class TorchNet(Net):
    """Hangs the mode on a thread's stack and keeps torch from behaving otherwise because of it."""

    def __init__(self, hub: Any, originals: dict[int, Callable[..., Any]]) -> None:
        self._mode = _Mode(hub, originals)
        self._answers = {name: self._mode.answering(getattr(torch.overrides, name)) for name in _QUESTIONS}
        self._questions = {name: getattr(torch.overrides, name) for name in _QUESTIONS}

    def apply(self) -> None:
        for module, name in _holding(self._questions):
            setattr(module, name, self._answers[name])

    def undo(self) -> None:
        for module, name in _holding(self._answers):  # modules imported meanwhile included
            setattr(module, name, self._questions[name])

    def __enter__(self) -> Any:
        return self._mode.__enter__()

    def __exit__(self, *exc: object) -> None:
        """Take the mode off the stack, wherever the program has left it there."""
        above = []
        while _len_torch_function_stack():
            mode = _pop_mode()
            if mode is self._mode:
                break
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)


def _holding(functions: dict[str, Callable[..., Any]]) -> Iterator[tuple[types.ModuleType, str]]:
    """Where the functions are held under their names, in whichever module."""
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType):
            names = vars(module)
            for name, function in functions.items():
                if names.get(name) is function:
                    yield module, name


class _Mode(TorchFunctionMode):
    def __init__(self, hub: Any, originals: dict[int, Callable[..., Any]]) -> None:
        super().__init__()
        self._hub = hub
        self._originals = originals
        self._names: dict[Any, str | None] = dict(builtin_names())

    def answering(self, ask: Callable[..., bool]) -> Callable[..., bool]:
        """``ask``, answering as it would without this mode when no other is there."""

        def asked(*args: Any) -> bool:
            if _len_torch_function_stack() != 1 or _get_current_function_mode() is not self:
                return ask(*args)
            _pop_mode()
            try:
                return ask(*args)
            finally:
                _push_mode(self)

        return asked

    @transparent
    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        original = self._originals.get(id(func), func)
        try:
            name = None if self._hub.is_open(original) else self._name(func)
            if name is None:
                return self._run(func, original, types_, args, kwargs)

            run = partial(self._run_with, func, original, types_) if types_ else None
            return self._hub.receive(name, original, args, kwargs, run)
        except BaseException as error:
            hide(error)
            raise

    @transparent
    def _run_with(self, func: Any, original: Any, types_: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(func, original, types_, args, kwargs)

    @transparent
    def _run(self, func: Any, original: Any, types_: Any, args: Any, kwargs: Any) -> Any:
        if types_ and _is_torch_function_enabled() and not _len_torch_function_stack():
            # Ask the subclasses as torch would, but with this mode on, to see what they call.
            for cls in types_:
                handler = getattr(cls, "__torch_function__", None)
                if getattr(handler, "__func__", None) in _DEFAULT:
                    break
                with self:
                    result = self._hub.dispatched(original, handler, (func, types_, args, kwargs))
                if result is not NotImplemented:
                    return result
        return original(*args, **kwargs)

    def _name(self, func: Any) -> str | None:
        try:
            return self._names[func]
        except KeyError:
            name = self._names[func] = _public_name(func)
            return name
        except TypeError:
            return None


def _public_name(func: Any) -> str | None:
    """The name to record ``func`` under, ``None`` for what is no tensor operation.

    Private ones that compute (``torch._weight_norm``) have names too: data would come from nowhere else.
    """
    short = getattr(func, "__name__", "")
    if short in ("__get__", "__set__", "__delete__"):
        prop = getattr(getattr(func, "__self__", None), "__name__", "")
        return f"torch.Tensor.{prop}" if short == "__get__" and prop in VIEW_PROPERTIES else None
    if short in NOT_OPS or short.startswith("is_") or (short in NOT_OP_DUNDERS and short != "__getitem__"):
        return None
    name = resolve_name(func) or f"{getattr(func, '__module__', None) or 'torch'}.{short}"
    name = name.replace("torch._C.TensorBase.", "torch.Tensor.").replace("torch._tensor.", "torch.")
    name = name.replace("torch._C._nn.", "torch.nn.functional.")
    if not name.startswith("torch.") or name.startswith("torch._C.") or short.startswith(_PRIVATE_NOT_OPS):
        return None
    return name
