"""The ``TorchFunctionMode`` below the patches: subscripts, views by attribute, builtins bound early."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import (
    TorchFunctionMode,
    _len_torch_function_stack,
    _pop_mode,
    _push_mode,
    resolve_name,
)

from optrace.frameworks.base import Net
from optrace.frameworks.torch_targets import NOT_OP_DUNDERS, NOT_OPS, VIEW_PROPERTIES
from optrace.transparent import hide, transparent

# What torch's Python functions ask before they run their body.
_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
# Private functions that ask or arrange something.
_PRIVATE_NOT_OPS = tuple("_is_ _has_ _use_ _get_ _set_ _make_ _debug_ _assert_ _sync _jit_ _propagate".split())


class TorchNet(Net):
    """Hands calls that reached torch past every patch to the hub."""

    def __init__(self, hub: Any, originals: dict[int, Callable[..., Any]]) -> None:
        self._mode = _Mode(hub, originals)
        self.patches = tuple(
            (module, name, self._mode.question(vars(module)[name]))
            for module in _asking()
            for name in _QUESTIONS
            if name in vars(module)
        )

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


def _asking() -> list[types.ModuleType]:
    """torch's modules that hold one of the questions under its name."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("torch.") and name != "torch.overrides" and isinstance(module, types.ModuleType)
    ]


class _Mode(TorchFunctionMode):
    def __init__(self, hub: Any, originals: dict[int, Callable[..., Any]]) -> None:
        super().__init__()
        self._hub = hub
        self._originals = originals
        self._local = threading.local()
        self._names: dict[Any, str | None] = {}

    def question(self, ask: Callable[..., bool]) -> Callable[..., bool]:
        """``ask``, answering no once for a body that this mode itself has started."""
        local = self._local

        def asked(*args: Any) -> bool:
            if getattr(local, "starting", False):
                local.starting = False
                return False
            return ask(*args)

        return asked

    @transparent
    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        original = self._originals.get(id(func), func)
        try:
            name = None if self._hub.is_open(original) else self._name(func)
            if name is None:
                return self._run(original, types_, args, kwargs)

            @transparent
            def run(*args: Any, **kwargs: Any) -> Any:
                return self._run(original, types_, args, kwargs)

            return self._hub.receive(name, original, args, kwargs, run)
        except BaseException as error:
            hide(error)
            raise

    @transparent
    def _run(self, original: Any, types_: Any, args: Any, kwargs: Any) -> Any:
        plain = isinstance(original, types.FunctionType) and _PLAIN.issuperset(types_)
        local = self._local
        outer = getattr(local, "running", None)
        if not plain or outer is original or _len_torch_function_stack():
            return original(*args, **kwargs)  # other modes below are to see this call themselves
        # Run the body with this mode on again, or the subscripts inside it would be missed.
        local.starting, local.running = True, original
        try:
            with self:
                return original(*args, **kwargs)
        finally:
            local.starting, local.running = False, outer

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
    if not name.startswith("torch.") or name.startswith("torch._C.") or short.startswith(_PRIVATE_NOT_OPS):
        return None
    return name
