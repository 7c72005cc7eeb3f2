"""Rules that say which stored tensor becomes which: rename, transpose, split, merge, drop, cast.

A rule is a small table::

    {"from": "encoder.layer.{i}.attention.self.query.weight",
     "to": "encoder.layers.{i}.self_attn.q_proj.weight", "transpose": true}

``{i}`` stands for one part of a name (no dot) and means the same in ``from`` and ``to``; ``{rest*}`` for
any number of parts. A list in ``from`` joins tensors along ``axis`` (default 0), a list in ``to`` cuts
along ``axis``, into ``sizes`` if given, else equally; ``axis`` counts as the source stores the tensor,
before ``transpose``. ``transpose`` is true (the last two axes of a matrix) or a list of axes; ``shape``
reshapes afterwards; ``cast`` names a dtype; ``drop`` leaves the tensor out. The first rule that matches
a name is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from optrace.errors import ConversionError

_KEYS = frozenset({"from", "to", "transpose", "axis", "sizes", "shape", "cast", "drop"})
_MOST_LONG_SLOTS = 4
_SLOT = re.compile(r"\{(\w+)(\*?)\}")


@dataclass(frozen=True)
class Rule:
    """One rule, checked. ``transpose`` is ``True``, ``False`` or a tuple of axes."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    transpose: bool | tuple[int, ...] = False
    axis: int = 0
    sizes: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    cast: str | None = None

    @property
    def drops(self) -> bool:
        return not self.targets

    def slots(self, name: str) -> tuple[int, dict[str, str]] | None:
        """Which source ``name`` is, and what the slots stand for; ``None`` when the rule is not about it."""
        for position, pattern in enumerate(self.sources):
            found = _compiled(pattern).fullmatch(name)
            if found is not None:
                return position, found.groupdict()
        return None

    def source_names(self, slots: Mapping[str, str]) -> list[str]:
        return [_filled(p, slots) for p in self.sources]

    def target_names(self, slots: Mapping[str, str]) -> list[str]:
        return [_filled(p, slots) for p in self.targets]

    def target_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Shapes of the results for sources of these shapes; raises ``ConversionError`` like ``apply``."""
        return [a.shape for a in self.apply([np.broadcast_to(np.zeros((), "int8"), s) for s in shapes])]

    def apply(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The results in the order of ``targets``. Raises ``ConversionError`` for wrong shapes."""
        if self.drops:
            return []
        try:
            array = (
                arrays[0]
                if len(arrays) == 1
                else np.concatenate(arrays, axis=min(self.axis, arrays[0].ndim - 1))
            )
            parts = [array] if len(self.targets) == 1 else self._cut(array)
            return [self._shaped(p) for p in parts]
        except ValueError as error:
            shapes = ", ".join(str(list(a.shape)) for a in arrays)
            raise ConversionError(f"rule {self} can't be applied to {shapes}: {error}") from error

    def _cut(self, array: np.ndarray) -> list[np.ndarray]:
        axis = min(self.axis, array.ndim - 1)  # one rule serves a matrix and its bias
        if self.sizes is None:
            return list(np.split(array, len(self.targets), axis=axis))
        if sum(self.sizes) != array.shape[axis]:
            raise ValueError(f"sizes {list(self.sizes)} do not add up to {array.shape[axis]}")
        return list(np.split(array, np.cumsum(self.sizes)[:-1].tolist(), axis=axis))

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        if isinstance(self.transpose, tuple):
            array = array.transpose(self.transpose)
        elif self.transpose and array.ndim >= 2:
            array = array.swapaxes(-1, -2)
        if self.shape is not None:
            array = array.reshape(self.shape)
        if self.cast is not None:
            array = array.astype(getattr(ml_dtypes, self.cast, self.cast))
        return array

    def inverted(self) -> list[Rule]:
        """Rules for the way back; none where it can't be told (dropped, reshaped, cast)."""
        if self.drops or self.shape is not None or self.cast is not None:
            return []
        transpose, axis = self.transpose, self.axis
        if transpose is True:
            axis = {0: 1, 1: 0}.get(axis, axis)
        elif isinstance(transpose, tuple):
            axis = transpose.index(axis)
            transpose = tuple(int(a) for a in np.argsort(transpose))
        return [
            Rule(self.targets, self.sources, transpose, axis, self.sizes if len(self.sources) > 1 else None)
        ]

    def __str__(self) -> str:
        return json.dumps(self.as_table())

    def as_table(self) -> dict[str, Any]:
        """The rule as it is written in a file."""
        table: dict[str, Any] = {"from": self.sources[0] if len(self.sources) == 1 else list(self.sources)}
        if self.drops:
            return {**table, "drop": True}
        table["to"] = self.targets[0] if len(self.targets) == 1 else list(self.targets)
        if self.transpose:
            table["transpose"] = list(self.transpose) if isinstance(self.transpose, tuple) else True
        if self.axis or len(self.sources) > 1 or len(self.targets) > 1:
            table["axis"] = self.axis
        for key in ("sizes", "shape"):
            if getattr(self, key) is not None:
                table[key] = list(getattr(self, key))
        if self.cast is not None:
            table["cast"] = self.cast
        return table


def parse(rules: Any) -> list[Rule]:
    """Rules from a list of tables, ``Rule`` objects, or the path of a file. Raises ``ConversionError``."""
    if rules is None:
        return []
    if isinstance(rules, (str, Path)):
        return read(Path(rules))
    if isinstance(rules, Mapping):
        rules = rules["rule"] if "rule" in rules else rules.get("rules", [rules])
    if isinstance(rules, (str, bytes, Mapping)) or not isinstance(rules, Iterable):
        raise ConversionError(f"rules are a list of tables, not {str(rules)[:80]}")
    return [rule if isinstance(rule, Rule) else _rule(rule) for rule in rules]


def read(path: Path) -> list[Rule]:
    """Rules from a ``.toml`` file (tables ``[[rule]]``) or a ``.json`` list. Raises ``ConversionError``."""
    try:
        text = path.read_text(encoding="utf-8")
        return parse(_toml(text) if path.suffix == ".toml" else json.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise ConversionError(f"the rules in {path} can't be read: {error}") from error


def _toml(text: str) -> Any:
    try:
        import tomllib
    except ImportError as error:  # Python 3.10
        raise ConversionError("rules in TOML need Python 3.11; write them as JSON") from error
    return tomllib.loads(text)


def write(path: Path, rules: Iterable[Rule], comment: str = "") -> None:
    """Write rules as TOML (``.toml``) or JSON that ``read`` takes back."""
    tables = [rule.as_table() for rule in rules]
    if path.suffix != ".toml":
        path.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
        return
    lines = [f"# {line}" for line in comment.splitlines()]
    for table in tables:
        lines += ["", "[[rule]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")


def _rule(table: Any) -> Rule:
    if not isinstance(table, Mapping):
        raise ConversionError(f"a rule is a table with 'from' and 'to', not {table!r}")
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ConversionError(
            f"a rule has no {', '.join(unknown)}; it may have {', '.join(sorted(_KEYS))}: {dict(table)}"
        )
    sources = _names(table.get("from"))
    targets = () if table.get("drop") else _names(table.get("to"))
    if not sources or not (targets or table.get("drop")):
        raise ConversionError(f"a rule needs 'from', and 'to' or 'drop': {dict(table)}")
    if len(sources) > 1 and len(targets) > 1:
        raise ConversionError(f"a rule joins or cuts, not both; write two rules: {dict(table)}")
    known = set(re.findall(r"\{(\w+)\*?\}", " ".join(sources)))
    for target in targets:
        for slot, _ in _SLOT.findall(target):
            if slot not in known:
                raise ConversionError(f"{{{slot}}} in {target!r} does not appear in 'from': {dict(table)}")
    for pattern in (*sources, *targets):
        _check(pattern)
    transpose = table.get("transpose", False)
    cast = table.get("cast")
    if not isinstance(cast, (str, type(None))):
        raise ConversionError(f"'cast' names a dtype: {dict(table)}")
    return Rule(
        sources,
        targets,
        transpose if isinstance(transpose, bool) else _integers(table, "transpose"),
        _integers({"axis": [table.get("axis", 0)]}, "axis")[0],
        _integers(table, "sizes") if table.get("sizes") is not None else None,
        _integers(table, "shape") if table.get("shape") is not None else None,
        cast,
    )


def _integers(table: Mapping[str, Any], key: str) -> tuple[int, ...]:
    found = table[key]
    if not isinstance(found, (list, tuple)) or not all(type(n) is int and abs(n) < 1 << 48 for n in found):
        raise ConversionError(f"{key!r} takes whole numbers, not {found!r}")
    return tuple(found)


def _check(pattern: str) -> None:
    """Refuse slots that have no name of their own, or whose ends can't be told."""
    slots = list(_SLOT.finditer(pattern))
    for slot, following in zip(slots, [*slots[1:], None]):
        if not slot[1].isidentifier():
            raise ConversionError(f"{slot[0]} in {pattern!r} is no name; a slot is called like a variable")
        if following is not None and slot.end() == following.start():
            raise ConversionError(f"{pattern!r}: where {slot[0]} ends can't be told; put something behind it")
    if sum(bool(slot[2]) for slot in slots) > _MOST_LONG_SLOTS:
        raise ConversionError(f"{pattern!r} has more than {_MOST_LONG_SLOTS} slots for any number of parts")


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (str, list, tuple)):
        raise ConversionError(f"'from' and 'to' take a name or a list of names, not {value!r}")
    return (value,) if isinstance(value, str) else tuple(str(v) for v in value)


def _compiled(pattern: str) -> re.Pattern[str]:
    found = _patterns.get(pattern)
    if found is None:
        text, end, seen = "", 0, set()
        for slot in _SLOT.finditer(pattern):
            name, many = slot.groups()
            text += re.escape(pattern[end : slot.start()])
            text += f"(?P={name})" if name in seen else f"(?P<{name}>{'.+?' if many else '[^.]+'})"
            seen.add(name)
            end = slot.end()
        found = _patterns[pattern] = re.compile(text + re.escape(pattern[end:]))
    return found


_patterns: dict[str, re.Pattern[str]] = {}


def _filled(pattern: str, slots: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda m: slots[m.group(1)], pattern)
