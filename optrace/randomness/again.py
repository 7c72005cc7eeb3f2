"""Recorded random calls, run again with the draw they made: what the forced run does with them."""

from __future__ import annotations

from typing import Any

from optrace.diagnose import replay
from optrace.randomness.apply import CannotApply, apply
from optrace.randomness.draws import draw_of
from optrace.trace.model import Trace
from optrace.trace.records import Call


def install() -> None:
    """Let the comparison run random calls again with their own draws."""
    replay.replay_draw = run_again


def run_again(trace: Trace, framework: Any, call: Call, args: list[Any], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the draw of ``call`` is known, and then its result on other arguments.

    Raises ``Unreplayable`` where the draw does not show.
    """
    draw = draw_of(trace, call)
    if draw is None:
        raise replay.Unreplayable(f"the draw inside {call.api} can't be had, so it can't be run again with it")
    try:
        return True, apply(framework, call.api, tuple(args), kwargs, draw.values, {})
    except CannotApply as error:
        raise replay.Unreplayable(str(error)) from error
