"""optrace: where a PyTorch model and its PaddlePaddle port part.

Importing it imports neither framework; every name below is loaded on first use.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from optrace.api import auto_diff as auto_diff
    from optrace.api import diff as diff
    from optrace.trace.session import trace as trace

__version__ = "0.1.0"

_HOMES = {
    "optrace.api": ("auto_diff", "diff"),
    "optrace.trace": ("load",),
    "optrace.ops": ("equivalents", "random_ops"),
    "optrace.weights": ("add_special_init", "assign_weight", "convert_checkpoint"),
    "optrace.randomness": ("audit_random", "replay_random"),
    "optrace.report.model": ("Report",),
    "optrace.diagnose.findings": ("Evidence", "Finding", "Warn"),
    "optrace.trace.model": ("Trace",),
    "optrace.trace.records": ("Call",),
    "optrace.errors": (
        "ComparisonError",
        "ConversionError",
        "FrameworkMissing",
        "InputError",
        "ModelError",
        "OpTableError",
        "OptraceError",
        "ReplayError",
        "TraceError",
        "WeightError",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, "trace"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "trace":
        return importlib.import_module("optrace.trace")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'optrace' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _CallableTrace(ModuleType):
    """``optrace.trace`` is a package, and calling it starts a trace: ``with optrace.trace() as trace:``."""

    def __call__(
        self, level: str = "stats", out: str | Path | None = None, frameworks: Iterable[str] | None = None
    ) -> trace:
        from optrace.trace.session import trace

        return trace(level, out, frameworks)


class _Package(ModuleType):
    """Whoever imports ``optrace.trace`` or a module below it first, the import system sets it here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "trace" and isinstance(value, ModuleType):
            value.__class__ = _CallableTrace
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
