"""Framework adapters, looked up through ``sys.modules``; never imports a framework for the user."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from optrace.errors import FrameworkMissing
from optrace.frameworks.base import Framework

NAMES = ("torch", "paddle")
_adapters: dict[str, Framework] = {}


def importing(name: str) -> bool:
    """Whether ``name`` is in the middle of its own import."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and bool(getattr(spec, "_initializing", False))


def loaded(name: str) -> Framework | None:
    """The adapter of an imported framework; ``None`` while it is absent or half imported."""
    if sys.modules.get(name) is None or importing(name):
        return None
    if name not in _adapters:
        _adapters[name] = importlib.import_module(f"optrace.frameworks.{name}_adapter").adapter()
    return _adapters[name]


def all_loaded() -> list[Framework]:
    return [f for f in map(loaded, NAMES) if f is not None]


def get(name: str) -> Framework:
    """The adapter of a framework that must be there; imports the framework if it is installed.

    Raises ``FrameworkMissing`` when it can't be imported.
    """
    if name not in NAMES:
        raise FrameworkMissing(f"unknown framework {name!r}; optrace knows {', '.join(NAMES)}")
    if name not in sys.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise FrameworkMissing(
                f"{name} is needed here but can't be imported ({error}); install it with: pip install optrace[{name}]"
            ) from error
    found = loaded(name)
    if found is None:
        raise FrameworkMissing(f"{name} is still being imported; use it after its import has finished")
    return found


def of_tensor(obj: Any) -> Framework | None:
    """The framework whose tensor ``obj`` is."""
    return next((f for f in all_loaded() if f.is_tensor(obj)), None)


def of_module(obj: Any) -> Framework:
    """The framework whose module ``obj`` is. Raises ``FrameworkMissing`` for anything else."""
    for f in all_loaded():
        if f.is_module(obj):
            return f
    raise FrameworkMissing(
        f"{type(obj).__module__}.{type(obj).__qualname__} is neither a torch.nn.Module nor a paddle.nn.Layer"
    )
