"""Run something once a framework's import has finished, however far it has got."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any

import wrapt


class _WatchedSpec(importlib.machinery.ModuleSpec):
    """A module spec that tells when the import system declares the module initialised.

    The import system sets ``_initializing`` to false after the module's code has run and before
    ``import`` returns, also when the import was already under way when we came to know of it.
    """

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_optrace_initializing", False))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_optrace_initializing"] = value
        if not value:
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            self.__dict__["_initializing"] = False
            callbacks: list[Callable[[], None]] = self.__dict__.pop("_optrace_callbacks", [])
            self.__dict__.pop("_optrace_initializing", None)
            if self.name in sys.modules:
                for callback in callbacks:
                    callback()


def when_ready(name: str, callback: Callable[[str], None]) -> Callable[[], None]:
    """Call ``callback(name)`` once ``name`` is fully imported. Returns a function that cancels it."""
    active = [True]

    def fire() -> None:
        if active[0]:
            active[0] = False
            callback(name)

    def watch(module: Any) -> None:
        if not active[0]:
            return
        spec = getattr(module, "__spec__", None)
        if spec is None or not getattr(spec, "_initializing", False):
            fire()
            return
        if type(spec) is importlib.machinery.ModuleSpec:
            initializing = spec.__dict__.pop("_initializing")
            spec.__class__ = _WatchedSpec
            spec.__dict__["_optrace_initializing"] = initializing
            spec.__dict__["_optrace_callbacks"] = []
        spec.__dict__.setdefault("_optrace_callbacks", []).append(fire)

    if name in sys.modules:
        watch(sys.modules[name])
    else:
        wrapt.register_post_import_hook(watch, name)

    def cancel() -> None:
        active[0] = False

    return cancel
