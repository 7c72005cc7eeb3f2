"""The kinds of record in a trace folder's ``calls.bin``, typed, so that msgspec checks what it decodes."""

from __future__ import annotations

from typing import Any

import msgspec

from optrace.trace.records import Call, Fingerprint, TensorRef


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    pass


class Fields(_Record, tag="fields"):
    at_start: list[str]
    at_end: list[str]


class Meta(_Record, tag="meta"):
    meta: dict[str, Any]


class Tensor(_Record, tag="tensor"):
    index: int
    uid: int
    version: int
    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None
    offset: int
    storage: int
    requires_grad: bool
    path: str | None


class SourceLine(_Record, tag="site"):
    index: int
    file: Any
    line: int
    function: Any
    code: Any


class Name(_Record, tag="name"):
    id: int
    api: str
    via: str | None


class Stats(_Record, tag="stats"):
    uid: int
    version: int
    found: Fingerprint


class Value(_Record, tag="value"):
    uid: int
    version: int
    shard: int
    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]


class Finish(_Record, tag="finish"):
    meta: dict[str, Any]
    outputs: Any
    errors: dict[str, int]


# Fields whose values travel as extensions (see ``wire``): they are checked once they are decoded.
EXTENDED = {"mutated": list[TensorRef], "draw": TensorRef | None, "context": tuple[str, ...]}
# What is read of a run's description, where it is there.
DESCRIBED: dict[str, Any] = {
    "created": float, "python": str, "argv": list[str], "versions": dict[str, str], "opaque": dict[str, int],
    "ended": str, "ended_at": str, "incomplete": str,
}  # fmt: skip
_ALWAYS = (Fields, Meta, Tensor, SourceLine, Name, Stats, Value, Finish)
_TYPES = {f.name: f.type for f in msgspec.structs.fields(Call) if f.name != "owner"} | dict.fromkeys(
    EXTENDED, Any
)


_BLANK = Call(0, "", "", [], {})


class Kinds:
    """Every kind of record of one file. ``call`` and ``end`` have the fields that the file announces.

    ``at_start`` and ``at_end``: name and default of each of them, ``None`` for those that this version does
    not know: they are decoded and passed over.
    """

    def __init__(self, fields: Fields) -> None:
        self.at_start = _known(fields.at_start)
        self.at_end = _known(fields.at_end)
        self.Call = msgspec.defstruct(
            "Call",
            [("id", int), ("site", int), ("fields", _struct("Start", self.at_start))],
            bases=(_Record,), tag="call",
        )  # fmt: skip
        self.End = msgspec.defstruct(
            "End", [("id", int), ("fields", _struct("Stop", self.at_end))], bases=(_Record,), tag="end"
        )

    @property
    def all(self) -> Any:
        union: Any = Fields
        for kind in (*_ALWAYS[1:], self.Call, self.End):
            union = union | kind
        return union


def _struct(name: str, fields: tuple[tuple[str, Any] | None, ...]) -> type[msgspec.Struct]:
    columns = [(f[0], _TYPES[f[0]]) if f else (f"unknown_{i}", Any) for i, f in enumerate(fields)]
    return msgspec.defstruct(name, columns, bases=(_Record,))


def _known(names: list[str]) -> tuple[tuple[str, Any] | None, ...]:
    known = [name if name in _TYPES and name not in ("id", "site") else None for name in names]
    return tuple((name, getattr(_BLANK, name)) if name else None for name in known)
