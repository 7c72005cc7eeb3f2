"""Signatures of the op table: ``torch.add(input, other, *, alpha=1)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class Signature:
    """Parameters of one name, under the canonical names of its side. Binding is on a hot path."""

    __slots__ = ("_defaults", "_plain", "_varargs", "api", "names", "parameters", "required")

    def __init__(self, api: str, parameters: tuple[Parameter, ...]) -> None:
        self.api = api
        self.parameters = parameters
        self.names = tuple(p.name for p in parameters)
        self.required = tuple(p.name for p in parameters if p.default is MISSING and p.kind != "varargs")
        self._defaults = {p.name: p.default for p in parameters if p.default is not MISSING}
        self._plain = tuple(p.name for p in parameters if p.kind == "positional")
        self._varargs = next((p.name for p in parameters if p.kind == "varargs"), None)

    def defaults(self) -> dict[str, Any]:
        return dict(self._defaults)

    def default(self, name: str) -> Any:
        """One parameter's default, ``MISSING`` when it has none."""
        return self._defaults.get(name, MISSING)

    def complete(self, bound: Mapping[str, Any]) -> bool:
        """Whether no parameter that needs a value lacks one."""
        return all(name in bound for name in self.required)

    def bind(self, positional: Sequence[Any], keyword: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The arguments by canonical name, and whether all of them found a place."""
        bound = dict(zip(self._plain, positional))
        placed = True
        rest = positional[len(self._plain) :]
        if rest and self._varargs is not None:
            single = len(rest) == 1 and isinstance(rest[0], (list, tuple))
            bound[self._varargs] = rest[0] if single else tuple(rest)
        elif rest:
            placed = False
            for i, value in enumerate(rest, len(self._plain)):
                bound[f"arg{i}"] = value
        # A parameter's own name comes before an alias of it.
        for name, value in sorted(keyword.items(), key=lambda item: item[0] not in self.names):
            place = self._place(name, bound)
            free = place is not None and place not in bound
            placed = placed and free
            bound[place if free and place is not None else name] = value
        return bound, placed

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
