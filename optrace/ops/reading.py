"""Reads a bound call in terms that both frameworks share, and writes such terms for one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from optrace.ops.conversions import CONVERSIONS
from optrace.ops.forms import FORMS, UNKNOWN, equal, form_of, shape_of, written
from optrace.ops.schema import Row
from optrace.ops.signature import MISSING, Signature

# What a joint reading may stumble over: arguments that the call itself would refuse. Not comparable.
ODD = (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError)


class Term(NamedTuple):
    """One shared term: its normal value, the argument that it was read from, and what stood there."""

    value: Any
    name: str | None
    written: Any


class Side(msgspec.Struct):
    """One call: its row and signature, arguments with defaults filled in, and shapes of tensors."""

    framework: str
    row: Row
    signature: Signature
    args: dict[str, Any]
    shapes: Mapping[str, tuple[int, ...]]

    def shape(self, name: str) -> tuple[int, ...] | None:
        found = shape_of(self.args.get(name))
        return found if found is not None else self.shapes.get(name)

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of the first argument."""
        names = self.signature.names
        return self.shape(names[0]) if names else None

    def common(self, name: str) -> str:
        """The shared name of one of this side's parameters: torch's."""
        if self.framework == "torch":
            return name
        for ours, theirs in self.row.args.items():
            if theirs == name:
                return ours
        return name

    def own(self, common: str) -> str:
        return common if self.framework == "torch" else self.row.args.get(common, common)

    def form(self, name: str) -> str:
        """The form of one of this side's parameters."""
        common = self.common(name)
        return self.row.forms.get(common) or form_of(self.row, name if common == name else common)


def read(side: Side) -> dict[str, Term]:
    """The call's arguments by shared name; unknown values are left out, tensors too."""
    from optrace.ops.meanings import meaning

    joint = meaning(side.row.meaning)
    terms: dict[str, Term] = {}
    taken: frozenset[str] = frozenset()
    if joint is not None:
        taken = joint.takes
        try:
            terms = joint.read(side)
        except ODD:
            terms = {}
    for name, value in side.args.items():
        common = side.common(name)
        if common in taken or name in taken:
            continue
        normal = FORMS[side.form(name)](_to_torch(side, common, value), side, name)
        if normal is not UNKNOWN:
            terms[common] = Term(normal, name, value)
    return {k: t for k, t in terms.items() if t.value is not UNKNOWN}


def _to_torch(side: Side, common: str, value: Any) -> Any:
    pairs = side.row.values.get(common, ())
    if side.framework == "torch":
        # two torch values with one paddle value mean the same: the first of them stands for both
        partner = next((theirs for ours, theirs in pairs if same(ours, value)), UNKNOWN)
        if partner is UNKNOWN:
            return value
        return next(ours for ours, theirs in pairs if same(theirs, partner))
    for ours, theirs in pairs:
        if same(theirs, value):
            return ours
    conversion = CONVERSIONS.get(side.row.convert.get(common, ""))
    return conversion.to_torch(value) if conversion else value


def write(side: Side, terms: Mapping[str, Term], base: Side) -> dict[str, Any] | None:
    """The terms as arguments of ``side``'s signature, ``None`` when one has no place or no such value."""
    from optrace.ops.meanings import meaning

    joint = meaning(side.row.meaning)
    found: dict[str, Any] = {}
    left = dict(terms)
    if joint is not None:
        try:
            made = joint.write(terms, side, base)
        except ODD:
            made = None
        if made is None:
            return None
        found.update(made)
        left = {k: t for k, t in terms.items() if k not in joint.terms}
    names = set(side.signature.names)
    assumed = (side.row.assumes.torch if side.framework == "torch" else side.row.assumes.paddle).items()
    found.update({k: v for k, v in assumed if k in names and not same(v, side.signature.default(k))})
    for common, term in left.items():
        name = side.own(common)
        if name not in names:
            if not _droppable(base, common, term):
                return None
            continue
        value = _from_common(side, common, term, base)
        if value is UNKNOWN:
            return None
        found[name] = value
    return found


def _droppable(base: Side, common: str, term: Term) -> bool:
    """Whether a term that the other side can't express changes nothing: as assumed, or as by default."""
    assumes = base.row.assumes.torch if base.framework == "torch" else base.row.assumes.paddle
    if term.name in assumes:
        return same(assumes[term.name], term.written)
    default = base.signature.default(term.name or "")
    return default is not MISSING and same(default, term.written)


def _from_common(side: Side, common: str, term: Term, base: Side) -> Any:
    if side.framework == base.framework:
        return term.written
    value = term.value
    form = base.form(term.name or common)
    if side.framework == "paddle":
        for ours, theirs in side.row.values.get(common, ()):
            if same(ours, value):
                return theirs
        conversion = CONVERSIONS.get(side.row.convert.get(common, ""))
        if conversion:
            return conversion.to_paddle(value)
    if base.framework == "torch" and not (form == "padding" and isinstance(value, str)):
        return term.written
    return written(value, form, side.framework)


def same(a: Any, b: Any) -> bool:
    """Equal and of one kind: ``False`` is not ``0``."""
    if isinstance(a, list):
        a = tuple(a)
    if isinstance(b, list):
        b = tuple(b)
    return isinstance(a, bool) == isinstance(b, bool) and equal(a, b)
