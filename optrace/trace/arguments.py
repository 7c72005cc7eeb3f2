"""Plain leaves of an argument tree, and texts of strange ones."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

MAX_DEPTH = 12
MAX_ITEMS = 4096
MAX_TOTAL = 20_000  # over all containers of one call
MAX_TEXT = 200

# Types of the frameworks, numpy and Python whose text says all and costs nothing.
_HOMES = ("torch", "paddle", "numpy", "builtins")
_TEXTS = frozenset(
    "device dtype layout memory_format Size Place CPUPlace CUDAPlace CUDAPinnedPlace XPUPlace CustomPlace DataType VarType "
    "bool int float complex str range type function builtin_function_or_method method_descriptor ellipsis".split()
)


def plain(obj: Any) -> Any:
    """``obj`` as a value that can be stored: subclasses of int, float and str as their base."""
    if isinstance(obj, np.generic):
        return obj.item()
    for base in (bool, int, float, complex, str):
        if type(obj) is base:
            return obj
        if isinstance(obj, base):
            return cast("Any", base)(obj)
    return obj


def text_of(obj: Any) -> str:
    """A short text for an object whose ``__repr__`` may be slow, wrong, or raise.

    Only small things are asked for theirs: the texts of tensors and containers would compute.
    """
    kind = type(obj)
    name, home = name_of(kind), _home_of(kind)
    if type.__subclasscheck__(BaseException, kind) or (name in _TEXTS and home.split(".")[0] in _HOMES):
        try:
            return str(obj)[:MAX_TEXT]
        except Exception:
            return f"<{name}>"
    return f"<{home}.{_QUALIFIED(kind)}>"


def name_of(kind: type) -> str:
    """The type's name, whatever its metaclass says."""
    return str(_NAME(kind))


def _home_of(kind: type) -> str:
    try:
        return str(type.__getattribute__(kind, "__module__"))
    except Exception:
        return "?"


_NAME = type.__dict__["__name__"].__get__
_QUALIFIED = type.__dict__["__qualname__"].__get__
