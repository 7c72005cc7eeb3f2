"""Importing optrace is cheap, in any order, and imports point one way."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "optrace"

# From the bottom up; a folder may import its own layer and those below (docs/architecture.md).
LAYERS = (
    {"errors", "progress", "transparent", "version"},
    {"frameworks"},
    {"intercept"},
    {"ops", "trace"},
    {"align"},
    {"diagnose"},
    {"training", "layers", "weights", "randomness"},
    {"report"},
    {"api", "padiff", "testing", "cli", "__init__", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def imported(tree: ast.AST) -> list[tuple[int, str]]:
    """Modules of ours that a file imports, with the line; those for type checkers alone left out."""
    found: list[tuple[int, str]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            stack.extend(node.orelse)
            continue
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "optrace":
                found += [(node.lineno, f"optrace.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, node.module))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        stack.extend(ast.iter_child_nodes(node))
    return found


def layer(module: str) -> int | None:
    parts = module.split(".")
    return LEVEL.get(parts[1]) if parts[0] == "optrace" and len(parts) > 1 else None


def test_nothing_imports_upwards() -> None:
    upwards = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        own = LEVEL.get(place.parts[0].removesuffix(".py"))
        assert own is not None, f"{place} stands in no layer; add it to LAYERS"
        for line, module in imported(ast.parse(path.read_text(encoding="utf-8"))):
            theirs = layer(module)
            # A report is made and shown on request; whoever is asked for one may reach for it.
            if theirs is not None and theirs > own:
                upwards.append(f"{place}:{line} imports {module}")
    assert not upwards, "\n".join(upwards)


def test_only_the_adapters_know_the_frameworks() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(("frameworks/", "cli/demo", "ops/expansions/")):
            continue
        for line, module in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if module.split(".")[0] in ("torch", "paddle"):
                found.append(f"{place}:{line} imports {module}")
    assert not found, "\n".join(found)


def test_import_pulls_nothing_heavy() -> None:
    heavy = ("torch", "paddle", "numpy", "typer", "rich", "jinja2", "rtoml", "optrace.ops")
    assert run(f"import optrace, sys; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_nothing_is_logged_unasked() -> None:
    """A framework may turn the root logger on, as paddle does; what the user set for us stays."""
    setup = "import logging; logging.basicConfig(level='INFO'); ours = logging.getLogger('optrace')"
    level = "ours.getChild('trace').getEffectiveLevel()"
    assert run(f"{setup}; import optrace; print({level})") == str(logging.WARNING)
    assert run(f"{setup}; ours.setLevel('DEBUG'); import optrace; print({level})") == str(logging.DEBUG)


@pytest.mark.parametrize("module", ["optrace.api", "optrace.cli", "optrace.ops", "optrace.report.html"])
def test_own_modules_pull_no_framework(module: str) -> None:
    assert run(f"import {module}, sys; print('torch' in sys.modules or 'paddle' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "before",
    [
        "import optrace",
        "import optrace.trace",
        "import optrace.trace.records",
        "import optrace.trace.session as session; assert session.trace",
        "from optrace import trace",
        "from optrace.trace import records",
        "from optrace.trace.session import trace as inner",
        "import optrace.cli",
        "import optrace; optrace.trace; import importlib; importlib.reload(optrace)",
    ],
)
def test_trace_is_a_context_manager_in_any_order(before: str) -> None:
    code = f"""
{before}
import optrace, inspect
assert list(inspect.signature(optrace.trace).parameters) == ["level", "out", "frameworks", "select"]
with optrace.trace(level="meta", frameworks=[]) as trace:
    pass
assert trace.calls == []
import optrace.trace.records as records
assert optrace.trace.records is records and records.Call
from optrace import trace as again
assert again is optrace.trace
print("fine")
"""
    assert run(code) == "fine"


def test_every_public_name_is_there() -> None:
    code = "import optrace; print([n for n in optrace.__all__ if getattr(optrace, n, None) is None])"
    assert run(code) == "[]"
