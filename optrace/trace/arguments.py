"""Plain leaves of an argument tree, and texts of strange ones."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_DEPTH = 12
MAX_ITEMS = 4096
MAX_TEXT = 200


def plain(obj: Any) -> Any:
    """``obj`` as a value that can be stored: subclasses of int, float and str as their base."""
    if isinstance(obj, np.generic):
        return obj.item()
    for base in (bool, int, float, complex, str):
        if type(obj) is base:
            return obj
        if isinstance(obj, base):
            return base(obj)  # type: ignore[call-overload]
    return obj


def text_of(obj: Any) -> str:
    """A short text for an object whose ``__repr__`` may be slow, wrong, or raise."""
    module = type(obj).__module__
    if isinstance(obj, BaseException) or module.split(".")[0] in ("torch", "paddle", "numpy", "builtins"):
        try:
            return str(obj)[:MAX_TEXT]
        except Exception:
            return f"<{type(obj).__name__}>"
    return f"<{module}.{type(obj).__qualname__}>"
