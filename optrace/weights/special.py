"""Conversions of whole layers that users register themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[[Any, Any], Any])

_registered: dict[tuple[str, str, str, str], Callable[[Any, Any], Any]] = {}


def add_special_init(
    base_framework: str, base_name: str, raw_framework: str, raw_name: str
) -> Callable[[Function], Function]:
    """Register ``fn(base_layer, raw_layer)``, which copies the weights of one layer to another.

    It is used by ``assign_weight`` for layers of class ``base_name`` in the base model and ``raw_name``
    in the raw model, in the order in which they appear, or as the layer map pairs them. A later
    registration replaces an earlier one. The function may be called with or as a decorator.
    """

    def register(fn: Function) -> Function:
        _registered[base_framework, base_name, raw_framework, raw_name] = fn
        return fn

    return register


def registered(base_framework: str, raw_framework: str) -> dict[tuple[str, str], Callable[[Any, Any], Any]]:
    """Functions for a pair of frameworks, by the names of the two classes."""
    return {
        (base_name, raw_name): fn
        for (b, base_name, r, raw_name), fn in _registered.items()
        if (b, r) == (base_framework, raw_framework)
    }


def find(base_layer: Any, raw_layer: Any, frameworks: tuple[str, str]) -> Callable[[Any, Any], Any] | None:
    """The function for two layers, by their own classes' names."""
    return registered(*frameworks).get((type(base_layer).__name__, type(raw_layer).__name__))


def classes(framework: str, side: str) -> set[str]:
    """Classes of ``framework`` that a function is registered for on ``side`` (``"base"`` or ``"raw"``)."""
    keys = [key[:2] if side == "base" else key[2:] for key in _registered]
    return {name for own, name in keys if own == framework}
