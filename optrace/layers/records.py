"""What one run showed of the layers of one model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Slot(NamedTuple):
    """The place of one tensor among the arguments of a call."""

    place: int


@dataclass
class Parameter:
    """A parameter of a layer itself: enough to recognise the one that holds the same values elsewhere.

    ``print``: sum, sum of magnitudes and largest magnitude, which no transposition changes.
    """

    shape: tuple[int, ...]
    print: tuple[float, float, float]


@dataclass
class LayerCall:
    """One run of one layer, with the layers that ran inside it.

    Arrays are in the order in which the call's arguments, or its result, hold them. Gradients stand at
    the place of their tensor; ``None`` where none arrived. ``arguments`` are the positional and the keyword
    arguments with a ``Slot`` in the place of each tensor.
    """

    name: str
    kind: str
    owned: dict[str, Parameter] = field(default_factory=dict)
    inputs: list[np.ndarray] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    input_grads: list[np.ndarray | None] = field(default_factory=list)
    output_grads: list[np.ndarray | None] = field(default_factory=list)
    children: list[LayerCall] = field(default_factory=list)
    arguments: tuple[Any, dict[str, Any]] = ((), {})

    def walk(self) -> Iterator[LayerCall]:
        """This call and all below it, in the order in which they began."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class LayerRun:
    """One forward (and backward) of one model: its layers, and its parameters with their gradients."""

    model: str
    framework: str
    roots: list[LayerCall] = field(default_factory=list)
    layer_map: list[str] = field(default_factory=list)

    def walk(self) -> Iterator[LayerCall]:
        for root in self.roots:
            yield from root.walk()
