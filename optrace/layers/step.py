"""``single_step``: each layer of raw runs on what base's layer got, forward and backward.

Both models run with every tensor that enters or leaves a layer passed through an identity, so that a
gradient seen there is the layer's own part. In raw the identity also exchanges the values for base's, and
the gradient that comes back for base's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from optrace.frameworks.training import training_of
from optrace.layers.pairing import Pair
from optrace.layers.records import LayerCall
from optrace.layers.selection import Selection


class Alias:
    """Base's side: identities only."""

    def __init__(self, selection: Selection) -> None:
        self._framework = selection.framework
        self._training = training_of(selection.framework.name)

    def entering(self, call: LayerCall, tensors: list[Any]) -> list[Any]:
        return [self._pass(t, None) for t in tensors]

    def leaving(self, call: LayerCall, tensors: list[Any]) -> list[Any]:
        return self.passed_on(tensors)

    def passed_on(self, tensors: list[Any]) -> list[Any]:
        """What the model gets: hooks that it registers are not ours, in whatever order hooks run."""
        return [self._pass(t, None) for t in tensors]

    def _pass(self, tensor: Any, array: np.ndarray | None) -> Any:
        if not self._framework.info(tensor).dtype.startswith(("float", "bfloat")):
            return tensor
        return self._training.substitute(tensor, array)


class Step(Alias):
    """Raw's side. ``pairs`` come from a run before, which made the same calls in the same order."""

    def __init__(self, selection: Selection, order: list[LayerCall], pairs: list[Pair]) -> None:
        super().__init__(selection)
        place = {id(raw): k for k, raw in enumerate(order)}
        self._partners = {place[id(raw)]: base for base, raw in pairs}
        self._partner_of: dict[int, LayerCall | None] = {}
        self._next = 0

    def entering(self, call: LayerCall, tensors: list[Any]) -> list[Any]:
        base = self._partner_of[id(call)] = self._partners.get(self._next)
        self._next += 1
        return self._exchanged(tensors, base.inputs if base is not None else [])

    def leaving(self, call: LayerCall, tensors: list[Any]) -> list[Any]:
        base = self._partner_of[id(call)]
        if base is None:
            return self._exchanged(tensors, [])
        tensors = self.passed_on(tensors)  # others may read the tensor itself, whose gradient is not ours
        for tensor, gradient in zip(tensors, base.output_grads):
            if gradient is not None and gradient.shape == tuple(tensor.shape):
                self._redirect(tensor, gradient)
        return self._exchanged(tensors, base.outputs)

    def _exchanged(self, tensors: list[Any], arrays: list[np.ndarray]) -> list[Any]:
        """Base's values where all tensors of the two calls have the same shapes."""
        fits = [tuple(t.shape) for t in tensors] == [a.shape for a in arrays]
        return [self._pass(t, arrays[k] if fits else None) for k, t in enumerate(tensors)]

    def _redirect(self, tensor: Any, gradient: np.ndarray) -> None:
        if self._training.can_hook(tensor):
            self._training.redirect(tensor, lambda g: self._training.substitute(g, gradient))
