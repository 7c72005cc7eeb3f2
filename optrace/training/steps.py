"""A trace of a training loop, cut at its optimizer steps."""

from __future__ import annotations

from typing import Any

from optrace.align.graph import Graph
from optrace.trace.model import Trace
from optrace.trace.recorder import BACKWARD, HOOKS, SETTERS
from optrace.trace.records import Call
from optrace.trace.training import Gradient, OptimizerStep

# They compute nothing that could be compared.
_NO_OPS = BACKWARD | HOOKS


class StepTrace(Trace):
    """The calls from one optimizer step to the next; values and all else are the whole trace's."""

    def __init__(self, whole: Trace, step: int, only: bool) -> None:
        self.whole = whole
        self.step = step
        mine = [c for c in whole.calls if c.step == step]
        # What follows the last backward pass works on gradients (clipping) or watches; none of it is the model.
        last = max((c.id for c in mine if c.api in BACKWARD and c.parent == -1), default=None)
        self.all = mine
        starts = {c.id for c in mine if c.api in BACKWARD}
        self.calls = [
            c
            for c in mine
            if not _is_apart(c)
            and not (c.api == "torch.ones_like" and c.parent in starts)
            and (last is None or c.id <= last or _inside(c))
        ]
        self.outputs = whole.outputs if only else None
        self._children = None
        if self.outputs is None:
            graph = Graph(self)
            # Parameters and buffers that are set here are compared as such.
            self.outputs = [r for r in map(graph.refs.__getitem__, graph.sinks()) if r.path is None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["whole"], name)

    @property
    def gradients(self) -> list[Gradient]:
        return [g for g in self.whole.training.gradients if g.step == self.step]

    @property
    def optimizer_step(self) -> OptimizerStep | None:
        return next((s for s in self.whole.training.steps if s.step == self.step), None)


def _is_apart(call: Call) -> bool:
    """Not part of what the model computes; a value set outside every module is there from the start."""
    return call.api in _NO_OPS or (call.api in SETTERS and call.module is None)


def _inside(call: Call) -> bool:
    return call.phase in ("backward", "recompute")


def cut(trace: Trace) -> list[StepTrace]:
    """The steps of ``trace`` in order; what follows the last optimizer step is one more."""
    numbers = sorted({c.step for c in trace.calls})
    return [StepTrace(trace, n, len(numbers) == 1) for n in numbers]


def computes(step: StepTrace) -> bool:
    """Whether there is anything in the step to compare."""
    return bool(Graph(step).nodes)
