"""docs/guarantees.md names tests that exist, and names one for everything it promises."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "guarantees.md"


def rows() -> list[tuple[str, list[str]]]:
    """Each row's guarantee and the tests that it names."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and set(cells[0]) != {"-"} and cells[0] not in ("guarantee", "oracle"):
            found.append((cells[0], re.findall(r"`([^`]*(?:test_|::)[^`]*)`", line)))
    return found


def named() -> list[tuple[str, str]]:
    """File and pattern of a test's name; ``::name`` alone means the file named before."""
    found, file = [], ""
    for _, tests in rows():
        for test in tests:
            path, _, name = test.partition("::")
            file = path or file
            found.append((file, name))
    return found


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_guarantee_names_a_test() -> None:
    assert len(rows()) > 40
    assert [guarantee for guarantee, tests in rows() if not tests] == []


@pytest.mark.parametrize(("file", "name"), named())
def test_the_named_test_exists(file: str, name: str) -> None:
    files = list(TESTS.glob(file if "/" in file else f"intercept/{file}"))
    assert files, f"no test file {file}"
    pattern = re.compile(name.replace("*", ".*"))
    assert any(pattern.fullmatch(f) for path in files for f in functions(path)) or not name, name
