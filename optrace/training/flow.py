"""How gradients ran through one step: who passed what to whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from optrace.align.graph import Graph, Key
from optrace.trace.recorder import BACKWARD, HOOKS
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.training.steps import StepTrace
from optrace.training.vjp import differentiable, results

CUSTOM = frozenset({"torch.autograd.Function.apply", "paddle.autograd.PyLayer.apply"})


class Unit(NamedTuple):
    """A call whose gradient is looked at as one; a function with a backward of its own stands for its inner calls."""

    call: Call
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]


class Flow:
    """Units in execution order, the recorded gradients, the program's hooks and the roots of one step."""

    def __init__(self, step: StepTrace, graph: Graph) -> None:
        self.step, self.graph = step, graph
        self.arriving: dict[Key, np.ndarray] = {}
        self.leaving: dict[Key, np.ndarray] = {}
        self.hooks: dict[Key, list[Call]] = {}
        self.seeds: dict[Key, list[tuple[Call, np.ndarray]]] = {}
        self.units = self._units()
        self.readers: dict[Key, list[Unit]] = {}
        for unit in self.units:
            for ref in unit.inputs:
                self.readers.setdefault(ref.key, []).append(unit)
        self.makers = {r.key: u for u in self.units for r in u.outputs}
        self._gather()

    def gradient(self, key: Key) -> np.ndarray | None:
        """What went on from the value, ``None`` when nothing reached it."""
        found = self.leaving.get(key)
        return found if found is not None else self.arriving.get(key)

    def _units(self) -> list[Unit]:
        custom = {c.id: c for c in self.step.calls if c.api in CUSTOM and c.error is None}
        found, seen = [], set()
        for node in self.graph.nodes:
            call = node.call
            outer = custom.get(call.parent)
            if outer is not None:
                if outer.id in seen:
                    continue
                seen.add(outer.id)
                call = outer
            found.append(Unit(call, tuple(differentiable(call)), tuple(results(call))))
        return found

    def _gather(self) -> None:
        for gradient in self.step.gradients:
            value = self.step.value(gradient.ref)
            into = self.leaving if gradient.leaving else self.arriving
            if value is not None:
                known = into.get(gradient.key)
                into[gradient.key] = value if known is None else known + value
        for call in self.step.all:
            if call.api in HOOKS and call.positional and isinstance(call.positional[0], TensorRef):
                self.hooks.setdefault(call.positional[0].key, []).append(call)
            elif call.api in BACKWARD and call.parent == -1:
                self._seed(call)

    def _seed(self, call: Call) -> None:
        args = dict(zip(_arguments(call.api), call.positional))
        args.update(call.keyword)
        roots = tensors_in(next((args[n] for n in ("tensor", "tensors", "outputs") if n in args), None))
        given = next((args[n] for n in _GIVEN if args.get(n) is not None), None)
        weights = tensors_in(given)
        for place, root in enumerate(roots):
            value = self.step.value(weights[place]) if place < len(weights) else None
            seed = value if value is not None else np.ones(root.shape, _plain(root.dtype))
            self.seeds.setdefault(root.key, []).append((call, seed))


_GIVEN = ("gradient", "grad_tensor", "grad_tensors", "grad_outputs")


def _arguments(api: str) -> tuple[str, ...]:
    if api.endswith("Tensor.backward"):
        return ("tensor", "grad_tensor")
    if api.endswith("grad"):
        return ("outputs", "inputs", "grad_outputs")
    return ("tensors", "grad_tensors")


def _plain(dtype: str) -> Any:
    return dtype if dtype in ("float64", "float16", "complex64", "complex128") else "float32"
