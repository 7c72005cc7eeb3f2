"""Which arguments of two calls that do the same job do not mean the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from optrace.ops.binding import signature_for
from optrace.ops.forms import UNKNOWN, equal, shape_of
from optrace.ops.reading import Side, Term, read, same, write
from optrace.ops.schema import Row
from optrace.ops.table import table

Shapes = Mapping[str, tuple[int, ...]]


class ArgumentDifference(msgspec.Struct, frozen=True):
    """One argument of a pair of calls, each value in its own framework's terms."""

    base_name: str | None
    raw_name: str | None
    base_value: Any
    raw_value: Any
    note: str = ""

    @property
    def name(self) -> str:
        return self.base_name or self.raw_name or "?"


def side_of(
    api: str, args: Mapping[str, Any], row: Row | None = None, shapes: Shapes | None = None
) -> Side | None:
    """The call with defaults filled in; ``None`` for a name that the table (or the row) doesn't know."""
    found = signature_for(api, args, row)
    if found is None:
        return None
    filled = {**found[1].defaults(), **args}
    return Side(table().side_of(found[0], api), found[0], found[1], filled, shapes or {})


def pair(
    base_api: str,
    base_args: Mapping[str, Any],
    raw_api: str,
    raw_args: Mapping[str, Any] | None,
    shapes: Any = None,
    row: Row | None = None,
) -> tuple[Side, Side] | None:
    """Both calls read by one row, or by two rows of one job; ``raw_args`` of ``None`` fits any signature."""
    known = shapes or {}
    best: tuple[int, Side, Side] | None = None
    for a, b in _shared(base_api, raw_api) if row is None else [(row, row)]:
        base = side_of(base_api, base_args, a, known.get("base"))
        raw = side_of(raw_api, raw_args or {}, b, known.get("raw"))
        if base is None or raw is None:
            continue
        misfit = (
            _misfit(base, base_args) + (_misfit(raw, raw_args) if raw_args is not None else 0) + (a is not b)
        )
        if best is None or misfit < best[0]:
            best = (misfit, base, raw)
        if misfit == 0:
            break
    return None if best is None else best[1:]


def _shared(base_api: str, raw_api: str) -> Iterator[tuple[Row, Row]]:
    """Rows that hold both names, then pairs of rows of one job."""
    first, second = table().rows_of(base_api), table().rows_of(raw_api)
    yield from ((a, a) for a in first if a in second)
    for a in first:
        for b in second:
            if a is not b and (a.job or a.name) == (b.job or b.name):
                yield a, b


def _misfit(side: Side, args: Mapping[str, Any]) -> int:
    """Arguments that have no place in a signature, and parameters that lack one."""
    names = side.signature.names
    return 2 * (
        sum(name not in names for name in args) + sum(n not in side.args for n in side.signature.required)
    )


def compare_arguments(
    base_api: str,
    base_args: Mapping[str, Any],
    raw_api: str,
    raw_args: Mapping[str, Any],
    shapes: Mapping[str, Shapes] | None = None,
) -> list[ArgumentDifference]:
    """Non-tensor arguments that do not mean the same, defaults included, base's names first.

    ``shapes`` holds under ``"base"`` and ``"raw"`` the shapes of tensor arguments that the arguments
    themselves don't tell. What can't be translated with certainty is left out.
    """
    sides = pair(base_api, base_args, raw_api, raw_args, shapes)
    if sides is None:
        return []
    base, raw = sides
    left, right = read(base), read(raw)
    found = []
    for key, a in left.items():
        b = right.get(key)
        if b is not None and not equal(a.value, b.value):
            found.append(ArgumentDifference(a.name, b.name, plain_value(a), plain_value(b)))
    if base.framework != raw.framework:
        found.extend(_unassumed(base, left, right, True))
        found.extend(_unassumed(raw, right, left, False))
    return found


def plain_value(term: Term) -> Any:
    """What stood in the call; the read value where the call said nothing."""
    return term.written if term.name is not None else term.value


def _unassumed(
    side: Side, terms: Mapping[str, Term], other: Mapping[str, Term], is_base: bool
) -> list[ArgumentDifference]:
    """Parameters that the other side has not, at another value than the row assumes."""
    assumes = side.row.assumes.torch if side.framework == "torch" else side.row.assumes.paddle
    found = []
    for name, wanted in assumes.items():
        value = side.args.get(name, UNKNOWN)
        if value is UNKNOWN or name in other or side.form(name) == "ignore":
            continue
        if shape_of(value) is not None or same(value, wanted):
            continue
        if is_base:
            found.append(ArgumentDifference(name, None, value, wanted))
        else:
            found.append(ArgumentDifference(None, name, wanted, value))
    return found


def translate(
    base_api: str, base_args: Mapping[str, Any], raw_api: str, row: Row | None = None
) -> dict[str, Any] | None:
    """Base's non-tensor arguments in raw's terms; ``None`` when they can't be said there.

    Arguments that base left at a default which is raw's default too are left out. ``row`` restricts
    the translation to one row.
    """
    sides = pair(base_api, base_args, raw_api, None, None, row)
    if sides is None:
        return None
    base, raw = sides
    raw.args = dict(raw.signature.defaults())
    terms = read(base)
    made = write(raw, terms, base)
    if made is None:
        return None
    given = {raw.own(base.common(name)) for name in base_args}
    by_default = read(raw)

    def unset(name: str) -> bool:
        a, b = terms.get(raw.common(name)), by_default.get(raw.common(name))
        return a is not None and b is not None and equal(a.value, b.value)

    plain_defaults = raw.signature.defaults()
    return {
        k: v
        for k, v in made.items()
        if k in given or not (unset(k) or same(v, plain_defaults.get(k, UNKNOWN)))
    }
