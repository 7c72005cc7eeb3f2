"""Writes ``docs/reference.md`` from the docstrings of the public names: ``python docs/reference.py``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import optrace

PAGE = Path(__file__).with_name("reference.md")
HEAD = """# Reference

Made from the docstrings by `make docs`. Importing `optrace` loads neither framework; each name is loaded
on first use.
"""
GROUPS = {
    "Record": ("trace", "load", "Trace", "Call"),
    "Compare": ("diff", "auto_diff", "Report", "Finding", "Warn", "Evidence"),
    "Random calls": ("audit_random", "replay_random", "check_determinism", "random_ops"),
    "Weights": ("assign_weight", "convert_checkpoint", "add_special_init"),
    "Op table": ("equivalents",),
}
# Of these only some methods are for users.
SHOWN = {
    "trace": (),
    "Trace": ("value", "stats", "children_of", "frameworks", "save"),
}


def page() -> str:
    """The whole page. Raises ``ValueError`` for a public name that is in no group."""
    errors = [n for n in optrace.__all__ if n.endswith("Error") or n == "FrameworkMissing"]
    groups = {**GROUPS, "Errors": tuple(errors)}
    listed = {name for names in groups.values() for name in names}
    missing = [n for n in optrace.__all__ if n not in listed and not n.startswith("__")]
    if missing:
        raise ValueError(f"in no group of the reference: {', '.join(missing)}")
    parts = [HEAD]
    for title, names in groups.items():
        parts.append(f"## {title}\n")
        parts += [_entry(f"optrace.{name}", _resolved(name)) for name in names if name in optrace.__all__]
    return "\n".join(parts)


def _resolved(name: str) -> Any:
    found = getattr(optrace, name)
    if inspect.ismodule(found):  # optrace.trace, a package that can be called
        from optrace.trace.session import trace

        return trace
    return found


def _entry(name: str, value: Any) -> str:
    text = f"### `{name}`\n\n"
    if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception)):
        text += f"```python\n{name.rpartition('.')[2]}{_signature(value)}\n```\n\n"
    text += f"{_prose(inspect.getdoc(value) or '')}\n"
    if inspect.isclass(value) and not issubclass(value, Exception):
        text += "".join(_member(member, found) for member, found in _members(value))
    return text


def _members(cls: type) -> list[tuple[str, Any]]:
    return [
        (name, found)
        for name, found in vars(cls).items()
        if not name.startswith("_")
        and name in SHOWN.get(cls.__name__, (name,))
        and (isinstance(found, property) or inspect.isfunction(found))
        and inspect.getdoc(found)
    ]


def _member(name: str, found: Any) -> str:
    shown = name if isinstance(found, property) else f"{name}{_signature(found, method=True)}"
    return f"- `{shown}`: {' '.join(_prose(inspect.getdoc(found) or '').split())}\n"


def _signature(value: Any, method: bool = False) -> str:
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())
    text = str(signature.replace(parameters=parameters[method:], return_annotation=inspect.Signature.empty))
    return re.sub(r"(?<=: )'([^']*)'", r"\1", text)


def _prose(doc: str) -> str:
    return doc.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
