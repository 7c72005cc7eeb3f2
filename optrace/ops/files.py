"""Finds and reads the files of the op table."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from optrace.errors import OpTableError
from optrace.ops.conversions import CONVERSIONS
from optrace.ops.forms import FORMS
from optrace.ops.schema import Row, TableFile

ENVIRONMENT = "OPTRACE_OPS"


def own_files() -> list[Path]:
    """The table that comes with optrace: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "op_mappings", package.parent / "op_mappings"):
        if folder.is_dir():
            return sorted(folder.glob("*.toml"))
    raise OpTableError(
        f"the op table is missing: no op_mappings folder in or beside {package}; reinstall optrace"
    )


def user_files() -> list[Path]:
    """Files named by the environment variable ``OPTRACE_OPS``."""
    return [Path(p) for p in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if p]


def read(path: Path) -> list[Row]:
    """The rows of one file. Raises ``OpTableError`` naming the file, the row and the field."""
    import rtoml

    try:
        data = rtoml.loads(path.read_text(encoding="utf-8"), none_value="None")
    except (OSError, UnicodeDecodeError) as error:
        raise OpTableError(f"{path}: can't be read ({error})") from error
    except rtoml.TomlParsingError as error:
        raise OpTableError(f"{path}: not valid TOML: {error}") from error
    try:
        rows = msgspec.convert(data, TableFile).op
    except msgspec.ValidationError as error:
        raise OpTableError(_explained(path, data, str(error))) from error
    for row in rows:
        row.file = str(path)
        _check(path, row)
    return rows


def _explained(path: Path, data: dict[str, Any], text: str) -> str:
    problem, _, place = text.partition(" - at `$")
    found = re.match(r"\.op\[(\d+)\]\.?(.*?)`?$", place)
    if found is None:
        return f"{path}: {problem}; a file of the op table is a list of [[op]] rows"
    row = data["op"][int(found[1])]
    name = row.get("name", "without a name") if isinstance(row, dict) else "not a table"
    field = f", field {found[2]}" if found[2] else ""
    return f"{path}: row {int(found[1]) + 1} ({name}){field}: {problem}"


def _check(path: Path, row: Row) -> None:
    def wrong(field: str, text: str) -> OpTableError:
        return OpTableError(f"{path}: row {row.name}, field {field}: {text}")

    if not row.torch and not row.paddle:
        raise wrong("torch, paddle", "no name on either side")
    for framework in ("torch", "paddle"):
        for entry in row.listed(framework):
            if entry.count("(") != entry.count(")") or ("(" in entry and not entry.endswith(")")):
                raise wrong(framework, f"unbalanced signature {entry!r}")
    for field, given, known in (
        ("forms", row.forms.values(), FORMS),
        ("convert", row.convert.values(), CONVERSIONS),
        ("meaning", [row.meaning] if row.meaning else [], _meanings()),
    ):
        for value in given:
            if value not in known:
                raise wrong(field, f"{value!r} is none of {', '.join(known)}")


def _meanings() -> Collection[str]:
    from optrace.ops.meanings import MEANINGS  # needs rows, which need this module

    return MEANINGS
