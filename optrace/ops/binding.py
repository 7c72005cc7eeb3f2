"""Arguments by canonical name, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optrace.errors import OpTableError
from optrace.ops.forms import form_of, suits
from optrace.ops.schema import Row
from optrace.ops.signature import Signature
from optrace.ops.table import table


def bind(api: str, positional: Sequence[Any], keyword: Mapping[str, Any]) -> dict[str, Any]:
    """The given arguments by canonical name; ``arg0``, ``arg1`` for an unknown ``api``. Never raises."""
    try:
        candidates = table().signatures(api)
    except OpTableError:
        candidates = []
    if len(candidates) == 1:
        return candidates[0][1].bind(positional, keyword)[0]
    first: dict[str, Any] | None = None
    for row, signature in candidates:
        bound, placed = signature.bind(positional, keyword)
        if placed and signature.complete(bound) and _suits(row, bound):
            return bound
        first = first or bound
    if first is not None:
        return first
    return {**{f"arg{i}": value for i, value in enumerate(positional)}, **keyword}


def _suits(row: Row, bound: Mapping[str, Any]) -> bool:
    return all(suits(form_of(row, name), value) for name, value in bound.items())


def signature_for(api: str, bound: Mapping[str, Any], row: Row | None = None) -> tuple[Row, Signature] | None:
    """The row and signature of ``api`` that the bound arguments fit, the first one when none does."""
    candidates = table().signatures(api)
    if row is not None:
        candidates = [c for c in candidates if c[0] is row]
    if len(candidates) == 1:
        return candidates[0]
    for candidate in candidates:
        signature = candidate[1]
        known = all(name in signature.names for name in bound)
        if known and signature.complete(bound) and _suits(candidate[0], bound):
            return candidate
    return candidates[0] if candidates else None


def arrange(api: str, bound: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The inverse of ``bind``: positional and keyword arguments that ``api`` accepts.

    Canonical names are those of the row's first name; a method or a C-level function may take them
    by position only.
    """
    found = signature_for(api, bound)
    return found[1].arrange(bound) if found else ([], dict(bound))


def defaults(api: str) -> dict[str, Any]:
    """What ``api`` uses for parameters that are not given."""
    found = table().signatures(api)
    return found[0][1].defaults() if found else {}
