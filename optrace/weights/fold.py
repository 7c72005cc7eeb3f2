"""A weight that is computed from several parameters (weight norm), seen as one parameter.

For models of which one keeps the weight itself, or which take the norm over different axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from optrace.diagnose.run import run_model
from optrace.trace.model import Trace
from optrace.trace.records import tensors_in
from optrace.weights.inventory import Inventory
from optrace.weights.uses import Use, canonical
from optrace.weights.views import View


def computes(uses: list[Use]) -> bool:
    """Whether a weight among ``uses`` is computed from several parameters."""
    return any(use.part >= 0 for use in uses)


class Folding:
    """Replaces the parts of computed weights by one use of the result."""

    def __init__(self, inventory: Inventory, inputs: Any) -> None:
        self.inventory = inventory
        self._inputs = inputs
        self._trace: Trace | None = None

    def fold(self, mine: list[Use]) -> list[Use]:
        """``mine`` with the computed weights folded; as they are where one of them is no weight norm."""
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
        v, g = self.inventory.array(direction), self.inventory.array(magnitude)
        found = (_norm_axes(value, v, g) for value in self._operands(use))
        axes = next((a for a in found if a is not None), None)
        if axes is None:
            return None
        name = f"{direction} * {magnitude}"
        self.inventory.add_computed(name, direction, magnitude, axes)
        use_of = canonical(View((name,), v.shape), use.role.partition("/")[0], use.perm)
        return replace(
            use_of, place=use.place, call=use.call, source=use.source, result=use.result, module=use.module,
            module_type=use.module_type, partners=(name,), signature=use.signature,
        )  # fmt: skip

    def _operands(self, use: Use) -> Iterator[np.ndarray]:
        """What the call got, the computed weight among it."""
        if self._trace is None:
            with self.inventory.framework.no_grad():
                self._trace = run_model(self.inventory.model, self._inputs, train=False, level="full")
        call = self._trace.calls[use.call]
        for ref in tensors_in([call.positional, call.keyword]):
            if (value := self._trace.value(ref)) is not None:
                yield value


def _norm_axes(value: np.ndarray, v: np.ndarray, g: np.ndarray) -> tuple[int, ...] | None:
    """The axes over which ``value = g * v / norm(v)`` takes the norm; ``None`` when it is something else."""
    if value.shape != v.shape:
        return None
    everything = tuple(range(v.ndim))
    for kept in (*everything, None):
        axes = tuple(a for a in everything if a != kept)
        norm = np.sqrt((v.astype(np.float64) ** 2).sum(axis=axes, keepdims=True))
        if norm.size == g.size and np.allclose(g.reshape(norm.shape) * v / norm, value, rtol=1e-3, atol=1e-5):
            return axes
    return None
