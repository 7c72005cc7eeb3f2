"""What a comparison says: findings, warnings, and the evidence behind the verdict."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from optrace.ops.compare import ArgumentDifference
from optrace.trace.records import Call

Kind = Literal[
    "argument", "value", "missing_op", "extra_op", "order", "layout", "dtype", "weight", "input", "random"
]
Stage = Literal["forward", "loss", "backward", "optimizer", "buffer"]


class ErrorFigures(msgspec.Struct, frozen=True):
    """How far two tensors are apart. ``ulp`` counts units in the last place of the output dtype."""

    max_abs: float
    max_rel: float
    rel_l2: float
    ulp: float
    note: str = ""


class Error(msgspec.Struct, frozen=True):
    """``local``: given equal inputs (the forced run). ``observed``: as the two runs showed it."""

    local: ErrorFigures | None = None
    observed: ErrorFigures | None = None


class Spread(msgspec.Struct, frozen=True):
    """How far an error travels: calls whose inputs it reached, and whether it reached an output."""

    calls: int = 0
    reaches_output: bool = False


class Cause(NamedTuple):
    """One explanation; ``base`` may be another call than the counterpart (a missing one, say).

    ``raw``: the call at fault, where it is another than the one that goes wrong.
    """

    kind: Kind
    message: str
    base: Call | None
    argument: str | None = None
    parameter: str | None = None
    differences: tuple[ArgumentDifference, ...] = ()
    suggestion: str = ""
    raw: Call | None = None


class Finding(msgspec.Struct):
    """One root cause. ``occurrences`` counts the runs of its line that go wrong in the same way."""

    kind: Kind
    message: str
    stage: Stage = "forward"
    base: Call | None = None
    raw: Call | None = None
    argument: str | None = None
    parameter: str | None = None
    error: Error = Error()
    differences: tuple[ArgumentDifference, ...] = ()
    suggestion: str = ""
    spread: Spread = Spread()
    step: int = 0
    occurrences: int = 1


class Warn(msgspec.Struct):
    """A difference in the code that did not change this run's numbers."""

    message: str
    base: Call | None = None
    raw: Call | None = None
    argument: str | None = None


class Evidence(msgspec.Struct):
    """What the verdict rests on, in calls of the raw side (``missing`` counts base's)."""

    compared: int = 0
    grouped: int = 0
    unmatched_base: int = 0
    unmatched_raw: int = 0
    beyond: int = 0
    beyond_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    base_calls: int = 0
    raw_calls: int = 0

    def add(self, other: Evidence) -> None:
        """Count what another part of the two runs showed, too."""
        for name in self.__struct_fields__:
            mine, more = getattr(self, name), getattr(other, name)
            if isinstance(mine, int):
                setattr(self, name, mine + more)
        for reason, count in other.beyond_reasons.items():
            self.beyond_reasons[reason] = self.beyond_reasons.get(reason, 0) + count
