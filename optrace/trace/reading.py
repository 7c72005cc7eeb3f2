"""Builds a trace from the records of a folder, trusting none of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from optrace.errors import TraceError
from optrace.trace import stored
from optrace.trace.frames import FrameReader
from optrace.trace.model import LEVELS, Trace
from optrace.trace.naming import promote
from optrace.trace.records import Call, Site, TensorRef
from optrace.trace.shards import Place, ShardReader, dtype_of
from optrace.trace.training import TrainingRecord
from optrace.trace.wire import Unpacker
from optrace.trace.writer import CALLS, FORMAT, META, VERSION

# A summary longer than this in bytes is none of ours.
_MAX_SUMMARY = 4 << 20
_MAX_RANK = 64


def read_folder(folder: Path) -> Trace:
    """The trace in ``folder``. Raises ``TraceError`` for anything that is no readable trace."""
    trace, calls = growing(folder)
    for _ in calls:
        pass
    return trace


def growing(folder: Path) -> tuple[Trace, Iterator[Call]]:
    """The trace in ``folder`` without its calls, and an iterator that adds one after the other.

    Calls at the front may be taken out of ``trace.calls`` meanwhile; what is said of them later is passed
    over. Raises ``TraceError`` like ``read_folder``, now or while iterating.
    """
    builder = _Builder(folder)
    return builder.trace, builder.calls()


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
        self.trace = Trace()
        self.trace.stored = self._values = ShardReader(folder, {})
        self._begun = 0  # calls so far
        self._tensors: list[TensorRef] = []
        self._sites: list[Site] = []
        self._texts: dict[str, str] = {}
        self._unpack = Unpacker(self._tensors).hook
        self._kinds: stored.Kinds | None = None
        self._finished = False

    def calls(self) -> Iterator[Call]:
        """Read everything; hands out each call when it begins."""
        try:
            yield from self._calls(complete=_summary(self._folder))
        except OSError as error:
            raise TraceError(f"the trace in {self._folder} can't be read: {error}") from error
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise TraceError(f"the trace in {self._folder} is corrupt: {error}") from error

    def _calls(self, complete: bool) -> Iterator[Call]:
        frames = FrameReader(self._folder / CALLS)
        decode = msgspec.msgpack.Decoder(stored.Fields).decode
        take: dict[type, Any] = {}
        for number, payload in enumerate(frames):
            try:
                record = decode(payload)
                kind = type(record)
                if kind is stored.Fields:
                    kinds = self._kinds = stored.Kinds(record)
                    decode = msgspec.msgpack.Decoder(kinds.all, ext_hook=self._unpack).decode
                    take = self._methods(kinds)
                else:
                    take[kind](record)
            except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
                raise TraceError(f"{frames.path} is corrupt at record {number}: {error}") from error
            if take and kind is kinds.Call:
                yield self.trace.calls[-1]
        if complete and (frames.torn or not self._finished):
            raise TraceError(f"{frames.path} is truncated: it was complete once and now ends in the middle")
        self._end_of_file()

    def _methods(self, kinds: stored.Kinds) -> dict[type, Any]:
        return {
            stored.Meta: self._meta,
            stored.Tensor: self._tensor,
            stored.SourceLine: self._site,
            kinds.Call: self._call,
            kinds.End: self._end,
            stored.Name: self._name,
            stored.Stats: self._stats,
            stored.Value: self._value,
            stored.Finish: self._finish,
        }

    def _end_of_file(self) -> None:
        if not self._finished:
            self.trace.meta["incomplete"] = "the run ended before the trace did"
            promote(self.trace.calls)
        if self.trace.level not in LEVELS:
            raise TraceError(f"the trace in {self._folder} has an unknown level {self.trace.level!r}")

    # -- one method per kind of record -------------------------------------------------------------

    def _meta(self, record: stored.Meta) -> None:
        meta = record.meta
        if not isinstance(meta.get("id"), str) or not isinstance(meta.get("level"), str):
            raise ValueError("the run's description lacks its id or level")
        for name, kind in stored.DESCRIBED.items():
            if name in meta:
                meta[name] = msgspec.convert(meta[name], kind)
        self.trace.meta = meta
        self.trace.level = meta["level"]

    def _tensor(self, record: stored.Tensor) -> None:
        _expect(record.index == len(self._tensors), "tensors are out of order")
        _expect(_is_shape(record.shape), "a tensor's shape is impossible")
        _, *fields = msgspec.structs.astuple(record)
        self._tensors.append(TensorRef(*fields))

    def _site(self, record: stored.SourceLine) -> None:
        _expect(record.index == len(self._sites), "source lines are out of order")
        texts = (record.file, record.function, record.code)
        _expect(all(isinstance(text, str) for text in texts), "a source line is malformed")
        self._sites.append(Site(record.file, record.line, record.function, record.code))

    def _call(self, record: Any) -> None:
        _expect(record.id == self._begun, "calls are out of order")
        self._begun += 1
        site = None if record.site == -1 else self._sites[_index(record.site)]
        call = Call(record.id, "", "", [], {}, site=site)
        self._fill(call, record.fields, self._kinds.at_start)  # type: ignore[union-attr]
        _expect(-1 <= call.parent < record.id, "a call's parent comes after it")
        self.trace.append(call)

    def _end(self, record: Any) -> None:
        call = self._known(record.id)
        if call is not None:
            self._fill(call, record.fields, self._kinds.at_end)  # type: ignore[union-attr]

    def _name(self, record: stored.Name) -> None:
        call = self._known(record.id)
        if call is not None:
            call.api, call.via = record.api, record.via

    def _stats(self, record: stored.Stats) -> None:
        self.trace.fingerprints[record.uid, record.version] = record.found

    def _value(self, record: stored.Value) -> None:
        _expect(_is_shape(record.shape), "a value's shape is impossible")
        _expect(
            math.prod(record.shape) * dtype_of(record.dtype).itemsize == record.size,
            "a value's size is wrong",
        )
        _expect(0 <= record.shard < 100_000 and record.offset >= 0, "a value's place is impossible")
        place = Place(record.shard, record.offset, record.size, record.dtype, record.shape)
        self._values.places[record.uid, record.version] = place

    def _finish(self, record: stored.Finish) -> None:
        training = record.meta.pop("training", None)
        if training is not None:
            self.trace.training = TrainingRecord.from_plain(training)
        self._meta(stored.Meta(record.meta))
        self.trace.outputs = record.outputs
        self.trace.errors = Counter(record.errors)
        self._finished = True

    # -- inside ----------------------------------------------------------------------------------

    def _known(self, number: int) -> Call | None:
        """The call of that number, ``None`` when it has been taken out."""
        calls = self.trace.calls
        first = self._begun - len(calls)
        return calls[number - first] if _index(number) >= first else None

    def _fill(self, call: Call, said: Any, fields: tuple[tuple[str, Any] | None, ...]) -> None:
        texts, extended = self._texts, stored.EXTENDED
        for field, value in zip(fields, msgspec.structs.astuple(said)):
            if field is None or value is field[1]:
                continue
            name = field[0]
            if type(value) is str:
                # The same object for equal texts: a million calls have few different names.
                value = texts.setdefault(value, value)
            elif name in extended:
                value = msgspec.convert(value, extended[name])
            setattr(call, name, value)


def _expect(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)


def _index(number: int) -> int:
    _expect(number >= 0, "a negative index")
    return number


def _is_shape(shape: tuple[int, ...]) -> bool:
    return len(shape) <= _MAX_RANK and all(d >= 0 for d in shape)
