"""``optrace doctor``: what is installed, what gets patched, and a self-check."""

from __future__ import annotations

import platform
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

import optrace
from optrace import frameworks
from optrace.cli.output import CANNOT, line, table
from optrace.frameworks.base import Target
from optrace.version import __version__

_LIBRARIES = (
    "numpy",
    "msgspec",
    "safetensors",
    "wrapt",
    "ml-dtypes",
    "rtoml",
    "rich",
    "typer",
    "jinja2",
    "transformers",
)
# Versions that the tests were run with.
_TESTED = {"torch": "2.13", "paddle": "3.3"}
_DISTRIBUTIONS = {"paddle": ("paddlepaddle", "paddlepaddle-gpu")}


def command() -> None:
    """Say what is installed, which APIs a trace patches, and whether tracing works here.

    Exit status: 0 when all is well, 2 when neither framework is there or a self-check fails.
    """
    line(f"optrace {__version__}, python {platform.python_version()}, {platform.platform()}", bold=True)
    table([(name, _version(name)) for name in _LIBRARIES], indent=2)
    well = [_framework(name) for name in frameworks.NAMES]
    line()
    if False in well or True not in well:
        line("something is missing or wrong, see above", bold=True)
        raise SystemExit(CANNOT)
    line("all is well", bold=True)


def _version(name: str) -> str:
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def _framework(name: str) -> bool | None:
    """Whether tracing works with one framework; ``None`` when it is not installed."""
    line()
    line(f"{name} {_version(name)}", bold=True)
    if find_spec(name) is None:
        line(f"  not installed; install it with: pip install optrace[{name}]")
        return None
    try:
        framework = frameworks.get(name)
    except Exception as error:
        line(f"  can't be imported: {type(error).__name__}: {error}")
        return False
    targets = list(framework.targets())
    before = _bindings(targets)
    with optrace.trace(level="full", frameworks=[name]) as trace:
        patched = sum(map(_changed, before, _bindings(targets)))
        _ = framework.from_numpy(np.ones(2)) + framework.from_numpy(np.ones(2))
    restored = not any(map(_changed, before, _bindings(targets)))
    recorded = any(call.api.endswith("__add__") for call in trace.calls)
    table(
        [
            ("tested with", f"{_TESTED[name]}; other versions are checked by the lines below only"),
            ("patched while tracing", f"{patched:,} of {len(targets):,} APIs"),
            ("self-check: one addition recorded", "yes" if recorded else "NO"),
            ("self-check: everything put back", "yes" if restored else "NO"),
            *(("error inside the tracer", text) for text in trace.errors),
        ],
        indent=2,
    )
    return recorded and restored and not trace.errors


def _bindings(targets: list[Target]) -> list[tuple[Any, Any]]:
    """What each name holds, and its code: a function keeps its identity while it is traced."""
    held = (vars(target.owner).get(target.attribute) for target in targets)
    return [(value, getattr(value, "__code__", None)) for value in held]


def _changed(before: tuple[Any, Any], now: tuple[Any, Any]) -> bool:
    return before[0] is not now[0] or before[1] is not now[1]
