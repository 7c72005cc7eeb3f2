"""A weight that one side computes from several parameters (weight norm) and the other side simply keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from optrace.diagnose.run import run_model
from optrace.trace.model import Trace
from optrace.trace.records import tensors_in
from optrace.weights.inventory import Inventory
from optrace.weights.uses import Use, canonical
from optrace.weights.views import View


class Folding:
    """Replaces the parts of computed weights by one use of the result, where the other model has no parts."""

    def __init__(self, inventory: Inventory, inputs: Any) -> None:
        self.inventory = inventory
        self._inputs = inputs
        self._trace: Trace | None = None

    def fold(self, mine: list[Use], theirs: list[Use]) -> list[Use]:
        """``mine``, folded where that can be undone and ``theirs`` knows no computed weights."""
        if not any(u.part >= 0 for u in mine) or any(u.part >= 0 for u in theirs):
            return mine
        result = []
        for use in mine:
            if use.part < 0:
                result.append(use)
            elif use.part == 0:
                folded = self._folded(use)
                if folded is None:
                    return mine
                result.append(folded)
        return result

    def _folded(self, use: Use) -> Use | None:
        """The use of the computed weight; ``None`` when it is no weight norm."""
        if len(use.partners) != 2:
            return None
        direction, magnitude = use.partners if use.partners[0] == use.name else use.partners[::-1]
        value = self._computed(use)
        v, g = self.inventory.array(direction), self.inventory.array(magnitude)
        axes = _norm_axes(value, v, g)
        if axes is None:
            return None
        name = f"{direction} * {magnitude}"
        self.inventory.add_computed(name, direction, magnitude, axes)
        use_of = canonical(View((name,), v.shape), use.role.partition("/")[0], use.perm)
        return replace(
            use_of, place=use.place, call=use.call, source=use.source, result=use.result, module=use.module,
            module_type=use.module_type, partners=(name,), signature=use.signature,
        )  # fmt: skip

    def _computed(self, use: Use) -> np.ndarray | None:
        """The computed weight as the call saw it."""
        if self._trace is None:
            with self.inventory.framework.no_grad():
                self._trace = run_model(self.inventory.model, self._inputs, train=False, level="full")
        call = self._trace.calls[use.call]
        shape = self.inventory[use.name].shape
        for ref in tensors_in([call.positional, call.keyword]):
            if ref.key != use.source and ref.shape == shape:
                return self._trace.value(ref)
        return None


def _norm_axes(value: np.ndarray | None, v: np.ndarray, g: np.ndarray) -> tuple[int, ...] | None:
    """The axes over which ``value = g * v / norm(v)`` takes the norm; ``None`` when it is something else."""
    if value is None or value.shape != v.shape:
        return None
    everything = tuple(range(v.ndim))
    for kept in (*everything, None):
        axes = tuple(a for a in everything if a != kept)
        norm = np.sqrt((v.astype(np.float64) ** 2).sum(axis=axes, keepdims=True))
        if norm.size == g.size and np.allclose(g.reshape(norm.shape) * v / norm, value, rtol=1e-3, atol=1e-5):
            return axes
    return None
