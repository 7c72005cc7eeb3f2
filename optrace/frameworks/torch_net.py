"""The ``TorchFunctionMode`` below the patches: subscripts, views by attribute, builtins bound early."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch._tensor
import torch.functional
import torch.nn.functional
import wrapt
from torch.overrides import TorchFunctionMode, resolve_name

from optrace.frameworks.base import Net
from optrace.frameworks.torch_targets import NOT_OP_DUNDERS, NOT_OPS, VIEW_PROPERTIES

# Modules whose Python functions ask has_torch_function before they run their body.
_ASKING = (torch.nn.functional, torch.functional, torch._tensor)
_ASKING_NAMES = frozenset(m.__name__ for m in _ASKING)
_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})


class TorchNet(Net):
    """Hands calls that reached torch past every patch to the observer."""

    def __init__(self, observer: Any, originals: dict[int, Callable[..., Any]]) -> None:
        self._mode = _Mode(observer, originals)
        self.patches = tuple(
            (module, name, self._mode.question(getattr(module, name)))
            for module in _ASKING
            for name in _QUESTIONS
            if hasattr(module, name)
        )

    def __enter__(self) -> Any:
        return self._mode.__enter__()

    def __exit__(self, *exc: object) -> Any:
        return self._mode.__exit__(*exc)


class _Mode(TorchFunctionMode):
    def __init__(self, observer: Any, originals: dict[int, Callable[..., Any]]) -> None:
        super().__init__()
        self._observer = observer
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

    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, wrapt.ObjectProxy):
            func = func.__wrapped__
        original = self._originals.get(id(func), func)
        if self._observer.is_open(original):
            return self._run(original, types_, args, kwargs)
        try:
            name = self._names[func]
        except KeyError:
            name = self._names[func] = _public_name(func)
        except TypeError:
            name = None
        if name is None:
            return func(*args, **kwargs)
        return self._observer.call(name, partial(self._run_args, original, types_), args, kwargs)

    def _run_args(self, original: Any, types_: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(original, types_, args, kwargs)

    def _run(self, original: Any, types_: Any, args: Any, kwargs: Any) -> Any:
        asks = isinstance(original, types.FunctionType) and original.__globals__.get("__name__") in _ASKING_NAMES
        if not asks or not _PLAIN.issuperset(types_):
            return original(*args, **kwargs)
        # Run the body with this mode on again, or the subscripts inside it would be missed.
        self._local.starting = True
        try:
            with self:
                return original(*args, **kwargs)
        finally:
            self._local.starting = False


def _public_name(func: Any) -> str | None:
    """The name to record ``func`` under, ``None`` for what is no tensor operation."""
    short = getattr(func, "__name__", "")
    if short in ("__get__", "__set__", "__delete__"):
        prop = getattr(getattr(func, "__self__", None), "__name__", "")
        return f"torch.Tensor.{prop}" if short == "__get__" and prop in VIEW_PROPERTIES else None
    if short in NOT_OPS or short.startswith("is_") or (short in NOT_OP_DUNDERS and short != "__getitem__"):
        return None
    name = resolve_name(func) or f"{getattr(func, '__module__', None) or 'torch'}.{short}"
    return name.replace("torch._C.TensorBase.", "torch.Tensor.").replace("torch._tensor.", "torch.")
