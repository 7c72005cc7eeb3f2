"""Models that a user's function makes: ``file.py:function`` or ``module:function``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from optrace import frameworks
from optrace.errors import InputError, OptraceError


def pair(where: str) -> tuple[Any, Any, Any]:
    """Base model, raw model and inputs (``None`` without) from the function that ``where`` names.

    Raises ``InputError`` when there is no such function or it returns something else.
    """
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise InputError(f"{where!r} names no function; write file.py:function or module:function")
    made = getattr(_module(place), name, None)
    if not callable(made):
        raise InputError(f"{place} has no function {name}")
    try:
        result = made()
    except OptraceError:
        raise
    except Exception as error:
        raise InputError(f"{where} raised {type(error).__name__}: {error}") from error
    parts = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(parts) not in (2, 3) or not all(
        any(f.is_module(m) for f in frameworks.all_loaded()) for m in parts[:2]
    ):
        raise InputError(
            f"{where} must return (model of the checkpoint, model to convert to) or the same with inputs as the "
            f"third; it returned {', '.join(type(p).__name__ for p in parts)}"
        )
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None


def _module(place: str) -> ModuleType:
    sys.path.insert(0, str(Path(place).resolve().parent) if place.endswith(".py") else os.getcwd())
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except Exception as error:
        raise InputError(f"{place} can't be imported: {type(error).__name__}: {error}") from error
    finally:
        del sys.path[0]
