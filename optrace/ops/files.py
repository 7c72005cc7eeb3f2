"""Finds and reads the files of the op table."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from optrace.errors import OpTableError
from optrace.ops.checks import check_parameters
from optrace.ops.conversions import CONVERSIONS
from optrace.ops.forms import FORMS
from optrace.ops.schema import Row, TableFile

ENVIRONMENT = "OPTRACE_OPS"
ENTRY_POINTS = "optrace.ops"


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
    """Files of installed packages (entry points ``optrace.ops``), then those of ``OPTRACE_OPS``."""
    return [*_packaged(), *(Path(p) for p in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if p)]


def _packaged() -> Iterator[Path]:
    """What entry points name: a path, several, or a function that returns them."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found = entry.load()
            found = found() if callable(found) else found
            paths = [found] if isinstance(found, (str, os.PathLike)) else list(found)
            yield from [Path(path) for path in paths]
        except Exception as error:  # whatever a package does when it is imported
            raise OpTableError(
                f"entry point {entry.name} = {entry.value} of group {ENTRY_POINTS} gives no file: "
                f"{type(error).__name__}: {error}"
            ) from error


def read(path: Path, check: bool = False) -> list[Row]:
    """The rows of one file. Raises ``OpTableError`` naming the file, the row and the field.

    ``check`` looks into every signature too, which the tests have done for optrace's own files.
    """
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
        if check:
            check_parameters(row)
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
