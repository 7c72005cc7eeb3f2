"""Signatures of the op table: ``torch.add(input, other, *, alpha=1)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from optrace.errors import OpTableError


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()

# paddle's C functions take every argument, by position.
C_LEVEL = "paddle._C_ops."

# Spellings that the frameworks accept beside the documented one.
SYNONYMS = (
    ("input", "x", "self", "a", "tensor"),
    ("other", "y", "b"),
    ("dim", "axis", "dims", "axes"),
    ("dims", "perm"),
    ("keepdim", "keepdims"),
    ("size", "shape", "repeats", "repeat_times"),
    ("eps", "epsilon"),
    ("tensors", "x"),
    ("min", "a_min"),
    ("max", "a_max"),
    ("label", "target"),
    ("num_or_sections", "split_size_or_sections"),
    ("end", "stop"),
    ("steps", "num"),
    ("n", "num_rows"),
    ("m", "num_columns"),
    ("input", "values"),
    ("boundaries", "sorted_sequence"),
    ("lambd", "lam"),
    ("from_", "from", "min"),
    ("to", "max"),
    ("dimension", "axis"),
    ("test_elements", "test_x"),
    ("dim0", "axis0"),
    ("dim1", "axis1"),
    ("dtype", "shape_or_dtype"),
    ("size", "shape_or_dtype"),
    ("A", "x"),
    ("B", "y"),
)


class Parameter(NamedTuple):
    """``kind``: ``"positional"``, ``"varargs"`` (a list may stand for them) or ``"keyword"``."""

    name: str
    default: Any = MISSING
    kind: str = "positional"


class Signature(msgspec.Struct, frozen=True):
    """Parameters of one name, under the canonical names of its side."""

    api: str
    parameters: tuple[Parameter, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    def defaults(self) -> dict[str, Any]:
        return {p.name: p.default for p in self.parameters if p.default is not MISSING}

    def bind(self, positional: Sequence[Any], keyword: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The arguments by canonical name, and whether all of them found a place and none is missing."""
        bound: dict[str, Any] = {}
        fits = True
        rest = list(positional)
        for p in self.parameters:
            if not rest or p.kind == "keyword":
                break
            if p.kind == "varargs":
                single = len(rest) == 1 and isinstance(rest[0], (list, tuple))
                bound[p.name] = rest[0] if single else tuple(rest)
                rest = []
            else:
                bound[p.name] = rest.pop(0)
        for i, value in enumerate(rest):
            bound[f"arg{len(positional) - len(rest) + i}"] = value
            fits = False
        for name, value in keyword.items():
            place = self._place(name, bound)
            fits = fits and place is not None
            bound[place or name] = value
        missing = any(
            p.default is MISSING and p.name not in bound and p.kind != "varargs" for p in self.parameters
        )
        return bound, fits and not missing

    def _place(self, name: str, bound: Mapping[str, Any]) -> str | None:
        names = self.names
        if name in names:
            return name
        for group in SYNONYMS:
            if name in group:
                for other in group:
                    if other in names and other not in bound:
                        return other
        return None

    def arrange(self, bound: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The inverse of ``bind``: arguments as this name takes them, positional as far as possible.

        A C-level name is given all of them: it has no defaults.
        """
        if self.api.startswith(C_LEVEL):
            bound = {**self.defaults(), **bound}
        last = max(
            (i for i, p in enumerate(self.parameters) if p.name in bound and p.kind != "keyword"), default=-1
        )
        positional: list[Any] = []
        keyword: dict[str, Any] = {}
        gap = False
        for i, p in enumerate(self.parameters):
            value = bound.get(p.name, p.default if i <= last else MISSING)
            if value is MISSING:
                gap = gap or i <= last
            elif p.kind == "keyword" or gap:
                if p.name in bound:
                    keyword[p.name] = value
            elif p.kind == "varargs":
                positional.extend(value if isinstance(value, (list, tuple)) else (value,))
            else:
                positional.append(value)
        for name in bound:
            if name not in self.names:
                keyword[name] = bound[name]
        return positional, keyword


def parse(entry: str) -> Signature:
    """A written signature. Raises ``OpTableError`` when it can't be read."""
    api, bracket, rest = entry.partition("(")
    try:
        node = ast.parse(f"def f({rest if bracket else ')'}: pass").body[0]
    except SyntaxError as error:
        raise OpTableError(f"can't read the signature {entry!r}: {error.msg}") from error
    assert isinstance(node, ast.FunctionDef)
    a = node.args
    plain = [*a.posonlyargs, *a.args]
    found = [
        Parameter(p.arg, _literal(entry, d) if d is not None else MISSING)
        for p, d in zip(plain, [None] * (len(plain) - len(a.defaults)) + list(a.defaults))
    ]
    if a.vararg is not None:
        found.append(Parameter(a.vararg.arg, MISSING, "varargs"))
    for p, d in zip(a.kwonlyargs, a.kw_defaults):
        found.append(Parameter(p.arg, _literal(entry, d) if d is not None else MISSING, "keyword"))
    return Signature(api.strip(), tuple(found))


def _literal(entry: str, node: ast.expr) -> Any:
    text = ast.unparse(node)
    if text in ("inf", "-inf"):
        return float(text)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise OpTableError(f"default {text!r} in {entry!r} is not a literal") from error
