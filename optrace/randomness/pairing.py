"""Which of base's draws each random call of a recorded raw run is to be given when it is run again."""

from __future__ import annotations

from typing import Any

import numpy as np

from optrace import ops
from optrace.randomness.choose import Pool
from optrace.randomness.draws import Draw, draw_of, draws_of, family_of
from optrace.trace.effect import effect, short
from optrace.trace.model import Trace
from optrace.trace.records import Call, tensors_in

GIVEN, DRAWS, STAND_IN = "_given_draw", "_base_draws", "_stand_in"


def pair(base: Trace, raw: Trace) -> dict[str, int]:
    """Note on raw's random calls what they are given; returns why, and how often, that is no draw."""
    draws = draws_of(base)
    pool = Pool(draws)
    hidden = [c for c in _effective(base) if family_of(c.api) is None]
    reasons: dict[str, int] = {}
    inside: set[int] = set()
    for call in raw.calls:
        for note in (GIVEN, DRAWS, STAND_IN):
            call.__dict__.pop(note, None)
        if call.parent in inside:
            inside.add(call.id)
            continue
        if call.error is not None or not call.random or call.phase not in ("forward", "loss"):
            continue
        own = draw_of(raw, call)
        if own is not None:
            inside.add(call.id)
            call.__dict__[DRAWS] = [
                d
                for d in draws
                if d.family == own.family and d.values.size == own.values.size and own.freedom <= d.freedom
            ]
            _give(pool, call, own)
        elif family_of(call.api) is None and effect(call).effective and _known(call):
            inside.add(call.id)
            if _stand_in(hidden, base, call):
                text = f"the draw inside {call.api} can't be had; base's results stand in for its own"
                reasons[text] = reasons.get(text, 0) + 1
    return reasons


def _give(pool: Pool, call: Call, own: Draw) -> None:
    draw = pool.take(own.family, own.read, own.values.shape, own.freedom)
    if draw is not None:
        call.__dict__[GIVEN] = draw


def _known(call: Call) -> bool:
    """Whether the call itself draws, rather than something that it calls."""
    return not any(c.random for c in call.children)


def _effective(trace: Trace) -> list[Call]:
    found, inside = [], set()
    for call in trace.calls:
        if call.parent in inside:
            inside.add(call.id)
        elif call.random and call.error is None and _known(call):
            inside.add(call.id)
            found.append(call)
    return found


def _stand_in(hidden: list[Call], base: Trace, call: Call) -> bool:
    """Base's results of the next call that does the same job, in the raw call's shapes."""
    mine = tensors_in(call.outputs)
    for other in hidden:
        alike = ops.same_job(other.api, call.api) or short(other.api).lower() == short(call.api).lower()
        theirs = tensors_in(other.outputs)
        if not alike or not mine or not theirs:
            continue
        values = _laid([base.value(r) for r in theirs], [r.shape for r in mine])
        if values is not None:
            hidden.remove(other)
            call.__dict__[STAND_IN] = values
            return True
    return False


def _laid(values: list[Any], shapes: list[tuple[int, ...]]) -> list[np.ndarray] | None:
    """``values`` by the first of each shape that is wanted; ``None`` when one is missing."""
    left = [v for v in values if v is not None]
    found = []
    for shape in shapes:
        fitting = next((i for i, v in enumerate(left) if v.shape == tuple(shape)), None)
        if fitting is None:
            return None
        found.append(left.pop(fitting))
    return found
