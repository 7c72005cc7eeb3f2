"""Fused ops written out in elementary public ops of their own framework."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from optrace.errors import OpTableError
from optrace.ops.table import table


def expansion(api: str) -> Callable[..., Any] | None:
    """A function that takes the canonical arguments of ``api`` and computes its results step by step."""
    for row in table().rows_of(api):
        framework = table().side_of(row, api)
        name = getattr(row.expansion, framework)
        if name:
            module = importlib.import_module(f"optrace.ops.expansions.{framework}_expansions")
            found: Callable[..., Any] | None = getattr(module, name, None)
            if found is None:
                raise OpTableError(
                    f"{row.file}: row {row.name}, field expansion.{framework}: no expansion called {name!r}"
                )
            return found
    return None
