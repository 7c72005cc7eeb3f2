"""Recorded random calls, run again with a draw that is known: what the forced run does with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from optrace.diagnose import replay
from optrace.randomness.apply import CannotApply, apply
from optrace.randomness.choose import equal
from optrace.randomness.draws import Draw, draw_of
from optrace.randomness.pairing import DRAWS, GIVEN, STAND_IN
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef


def install() -> None:
    """Let the comparison run random calls again with known draws."""
    replay.replay_draw = run_again
    replay.redrawn = redrawn


def redrawn(call: Call) -> bool:
    """Whether the call is given another draw than the one it made."""
    return DRAWS in call.__dict__ or STAND_IN in call.__dict__


def run_again(trace: Trace, framework: Any, call: Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``call`` on other arguments, drawing what base drew, else what it drew itself.

    Raises ``Unreplayable`` where the draw does not show.
    """
    stand_in = call.__dict__.get(STAND_IN)
    if stand_in is not None:
        return _filled(framework, call.outputs, list(stand_in))
    draw: Draw | None = _by_input(framework, call, args) or call.__dict__.get(GIVEN) or draw_of(trace, call)
    if draw is None:
        raise replay.Unreplayable(
            f"the draw inside {call.api} can't be had, so it can't be run again with it"
        )
    try:
        return apply(framework, call.api, tuple(args), kwargs, draw)
    except CannotApply as error:
        raise replay.Unreplayable(str(error)) from error


def _by_input(framework: Any, call: Call, args: list[Any]) -> Draw | None:
    """The draw that base made on the values that the call reads now, which the order may hide."""
    read = next((a for a in args if framework.is_tensor(a)), None)
    draws = call.__dict__.get(DRAWS)
    if read is None or not draws:
        return None
    values = framework.to_numpy(read)
    given = call.__dict__.get(GIVEN)
    fitting = [d for d in draws if equal(d.read, values)]
    return None if any(d is given for d in fitting) else next(iter(fitting), None)


def _filled(framework: Any, outputs: Any, values: list[np.ndarray]) -> Any:
    """The tree ``outputs`` with the values, in order, for its tensors."""
    if isinstance(outputs, TensorRef):
        return framework.from_numpy(values.pop(0))
    if isinstance(outputs, (list, tuple)):
        return tuple(_filled(framework, o, values) for o in outputs)
    return outputs
