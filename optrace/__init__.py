"""optrace: record every framework call of two models, align them, and name the call where they part.

Importing this package imports neither torch nor paddle; each public name is loaded on first use.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from optrace.version import __version__

if TYPE_CHECKING:
    from optrace.api import auto_diff, diff
    from optrace.diagnose.findings import Evidence, Finding, Warn
    from optrace.ops import equivalents, random_ops
    from optrace.randomness import audit_random, check_determinism, replay_random
    from optrace.report.model import Report
    from optrace.trace.model import Trace
    from optrace.trace.records import Call
    from optrace.trace.session import trace
    from optrace.trace.store import read as load
    from optrace.weights import add_special_init, assign_weight, convert_checkpoint

_logger = logging.getLogger("optrace")
_logger.addHandler(logging.NullHandler())
if _logger.level == logging.NOTSET:
    # `import paddle` sets the root logger to INFO with a handler on stderr: inherited, our notes would show unasked.
    _logger.setLevel(logging.WARNING)

_ERRORS = (
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
)
_HOMES = {
    "load": "optrace.trace.store:read",
    "Trace": "optrace.trace.model",
    "diff": "optrace.api",
    "auto_diff": "optrace.api",
    "Report": "optrace.report.model",
    "Finding": "optrace.diagnose.findings",
    "Warn": "optrace.diagnose.findings",
    "Evidence": "optrace.diagnose.findings",
    "Call": "optrace.trace.records",
    "audit_random": "optrace.randomness",
    "check_determinism": "optrace.randomness",
    "replay_random": "optrace.randomness",
    "assign_weight": "optrace.weights",
    "convert_checkpoint": "optrace.weights",
    "add_special_init": "optrace.weights",
    "equivalents": "optrace.ops",
    "random_ops": "optrace.ops",
    **dict.fromkeys(_ERRORS, "optrace.errors"),
}

__all__ = ["__version__", "trace", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "trace":
        return importlib.import_module("optrace.trace")  # the subpackage, which is callable
    if name not in _HOMES:
        raise AttributeError(f"module 'optrace' has no attribute {name!r}")
    home, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(home), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
