"""Builds a trace from the records of a folder, trusting none of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from optrace.errors import TraceError
from optrace.trace.frames import FrameReader
from optrace.trace.model import LEVELS, Trace
from optrace.trace.naming import promote
from optrace.trace.records import Call, Fingerprint, Site, TensorRef
from optrace.trace.shards import Place, ShardReader, dtype_of
from optrace.trace.training import TrainingRecord
from optrace.trace.wire import Unpacker
from optrace.trace.writer import CALLS, FORMAT, META, VERSION

# A summary longer than this in bytes is none of ours.
_MAX_SUMMARY = 4 << 20
_MAX_RANK = 64
_CALL_FIELDS = frozenset(Call.__struct_fields__) - {"id", "site"}


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    pass


class _Fields(_Record, tag="fields"):
    at_start: list[str]
    at_end: list[str]


class _Meta(_Record, tag="meta"):
    meta: dict[str, Any]


class _Tensor(_Record, tag="tensor"):
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


class _Site(_Record, tag="site"):
    index: int
    file: Any
    line: int
    function: Any
    code: Any


class _Call(_Record, tag="call"):
    id: int
    site: int
    fields: list[Any]


class _End(_Record, tag="end"):
    id: int
    fields: list[Any]


class _Name(_Record, tag="name"):
    id: int
    api: str
    via: str | None


class _Stats(_Record, tag="stats"):
    uid: int
    version: int
    found: Fingerprint


class _Value(_Record, tag="value"):
    uid: int
    version: int
    shard: int
    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]


class _Finish(_Record, tag="finish"):
    meta: dict[str, Any]
    outputs: Any
    errors: dict[str, int]


_KINDS = _Fields | _Meta | _Tensor | _Site | _Call | _End | _Name | _Stats | _Value | _Finish


def read_folder(folder: Path) -> Trace:
    """The trace in ``folder``. Raises ``TraceError`` for anything that is no readable trace."""
    try:
        complete = _summary(folder)
        return _Builder(folder).build(complete)
    except OSError as error:
        raise TraceError(f"the trace in {folder} can't be read: {error}") from error
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise TraceError(f"the trace in {folder} is corrupt: {error}") from error


def _summary(folder: Path) -> bool:
    """Whether the trace says that it is complete."""
    if not folder.is_dir():
        raise TraceError(
            f"there is no trace in {folder}: " + ("no folder" if folder.exists() else "no such folder")
        )
    path, calls = folder / META, folder / CALLS
    if not path.is_file() or not calls.is_file():
        raise TraceError(f"{folder} is no trace: it has no {META if not path.is_file() else CALLS}")
    with path.open("rb") as file:
        text = file.read(_MAX_SUMMARY + 1)
    try:
        said = json.loads(text) if len(text) <= _MAX_SUMMARY else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise TraceError(f"{folder} is no trace: {META} is not ours")
    if said.get("version") != VERSION:
        raise TraceError(
            f"{folder} was written in version {said.get('version')!r} of the format and this optrace reads "
            f"version {VERSION}; use the optrace that wrote it"
        )
    return said.get("complete") is True


class _Builder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trace = Trace()
        self._tensors: list[TensorRef] = []
        self._sites: list[Site] = []
        self._names: tuple[list[str], list[str]] = ([], [])
        self._texts: dict[str, str] = {}
        self._values = ShardReader(folder, {})
        self._finished = False

    def build(self, complete: bool) -> Trace:
        frames = FrameReader(self._folder / CALLS)
        decode = msgspec.msgpack.Decoder(_KINDS, ext_hook=Unpacker(self._tensors).hook).decode
        take: dict[type, Any] = {
            _Fields: self._fields,
            _Meta: self._meta,
            _Tensor: self._tensor,
            _Site: self._site,
            _Call: self._call,
            _End: self._end,
            _Name: self._name,
            _Stats: self._stats,
            _Value: self._value,
            _Finish: self._finish,
        }
        for number, payload in enumerate(frames):
            try:
                record = decode(payload)
                take[type(record)](record)
            except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
                raise TraceError(f"{frames.path} is corrupt at record {number}: {error}") from error
        if complete and (frames.torn or not self._finished):
            raise TraceError(f"{frames.path} is truncated: it was complete once and now ends in the middle")
        return self._end_of_file()

    def _end_of_file(self) -> Trace:
        trace = self._trace
        trace.stored = self._values
        if not self._finished:
            trace.meta["incomplete"] = "the run ended before the trace did"
            promote(trace)
        if trace.level not in LEVELS:
            raise TraceError(f"the trace in {self._folder} has an unknown level {trace.level!r}")
        return trace

    # -- one method per kind of record -------------------------------------------------------------

    def _fields(self, record: _Fields) -> None:
        self._names = (record.at_start, record.at_end)

    def _meta(self, record: _Meta) -> None:
        meta = record.meta
        if not isinstance(meta.get("id"), str) or not isinstance(meta.get("level"), str):
            raise ValueError("the run's description lacks its id or level")
        self._trace.meta = meta
        self._trace.level = meta["level"]

    def _tensor(self, record: _Tensor) -> None:
        _expect(record.index == len(self._tensors), "tensors are out of order")
        _expect(_is_shape(record.shape), "a tensor's shape is impossible")
        _, *fields = (getattr(record, name) for name in _Tensor.__struct_fields__)
        self._tensors.append(TensorRef(*fields))

    def _site(self, record: _Site) -> None:
        _expect(record.index == len(self._sites), "source lines are out of order")
        texts = (record.file, record.function, record.code)
        _expect(all(isinstance(text, str) for text in texts), "a source line is malformed")
        self._sites.append(Site(record.file, record.line, record.function, record.code))

    def _call(self, record: _Call) -> None:
        calls = self._trace.calls
        _expect(record.id == len(calls), "calls are out of order")
        said = self._said(record.fields, 0)
        site = None if record.site == -1 else self._sites[_index(record.site)]
        call = msgspec.convert({**said, "id": record.id, "site": site}, Call)
        _expect(-1 <= call.parent < record.id, "a call's parent comes after it")
        for name in ("api", "framework", "module", "module_type", "phase"):
            setattr(call, name, self._shared(getattr(call, name)))
        self._trace.append(call)

    def _end(self, record: _End) -> None:
        call = self._trace.calls[_index(record.id)]
        said = self._said(record.fields, 1)
        checked = msgspec.convert(
            {"id": 0, "api": "", "framework": "", "positional": [], "keyword": {}, **said}, Call
        )
        for name in said:
            setattr(call, name, self._shared(getattr(checked, name)))

    def _name(self, record: _Name) -> None:
        call = self._trace.calls[_index(record.id)]
        call.api, call.via = self._shared(record.api), record.via

    def _stats(self, record: _Stats) -> None:
        self._trace.fingerprints[record.uid, record.version] = record.found

    def _value(self, record: _Value) -> None:
        _expect(_is_shape(record.shape), "a value's shape is impossible")
        _expect(
            math.prod(record.shape) * dtype_of(record.dtype).itemsize == record.size,
            "a value's size is wrong",
        )
        _expect(0 <= record.shard < 100_000 and record.offset >= 0, "a value's place is impossible")
        place = Place(record.shard, record.offset, record.size, record.dtype, record.shape)
        self._values.places[record.uid, record.version] = place

    def _finish(self, record: _Finish) -> None:
        training = record.meta.pop("training", None)
        if training is not None:
            self._trace.training = TrainingRecord.from_plain(training)
        self._meta(_Meta(record.meta))
        self._trace.outputs = record.outputs
        self._trace.errors = Counter(record.errors)
        self._finished = True

    # -- inside ----------------------------------------------------------------------------------

    def _said(self, fields: list[Any], which: int) -> dict[str, Any]:
        names = self._names[which]
        _expect(len(fields) == len(names), "a call has another number of fields than announced")
        return {name: field for name, field in zip(names, fields) if name in _CALL_FIELDS}

    def _shared(self, value: Any) -> Any:
        """The same object for equal texts: a million calls have few different names."""
        return self._texts.setdefault(value, value) if type(value) is str else value


def _expect(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)


def _index(number: int) -> int:
    _expect(number >= 0, "a negative index")
    return number


def _is_shape(shape: tuple[int, ...]) -> bool:
    return len(shape) <= _MAX_RANK and all(d >= 0 for d in shape)
