"""What a model owns: parameters and buffers by name, with the layer each belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.frameworks.base import Framework


@dataclass(frozen=True)
class Owned:
    """One parameter or buffer; ``others`` are its further names where it is shared."""

    name: str
    tensor: Any
    shape: tuple[int, ...]
    dtype: str
    buffer: bool
    layer: str
    layer_type: str
    others: tuple[str, ...] = ()

    @property
    def tensor_size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __str__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.dtype}"


class Inventory:
    """The parameters and buffers of one model, by name and in the order of definition."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.framework: Framework = frameworks.of_module(model)
        self.modules: list[tuple[str, Any]] = list(self.framework.named_modules(model))
        self._types = {name: type(module).__name__ for name, module in self.modules}
        self._owned: dict[str, Owned] = {}
        self._computed: dict[str, tuple[str, str, tuple[int, ...]]] = {}
        aliases = self._aliases()
        for buffer, pairs in (
            (False, self.framework.named_parameters(model)),
            (True, self.framework.named_buffers(model)),
        ):
            for name, tensor in pairs:
                if tensor is not None and self.framework.is_tensor(tensor):
                    self._add(name, tensor, buffer, aliases.get(id(tensor), []))

    def _aliases(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for prefix, module in self.modules:
            for name, tensor in module._parameters.items():
                if tensor is not None:
                    found.setdefault(id(tensor), []).append(f"{prefix}.{name}" if prefix else name)
        return found

    def _add(self, name: str, tensor: Any, buffer: bool, names: list[str]) -> None:
        info = self.framework.info(tensor)
        layer = name.rpartition(".")[0]
        others = tuple(n for n in names if n != name)
        self._owned[name] = Owned(
            name, tensor, info.shape, info.dtype, buffer, layer, self._types.get(layer, "?"), others
        )

    def __contains__(self, name: object) -> bool:
        return name in self._owned

    def __getitem__(self, name: str) -> Owned:
        return self._owned[name]

    def __iter__(self) -> Iterator[Owned]:
        """The model's own, without computed ones."""
        return (o for o in self._owned.values() if o.name not in self._computed)

    def find(self, name: str) -> Owned | None:
        """The parameter of that name or of that further name."""
        found = self._owned.get(name)
        return found or next((o for o in self if name in o.others), None)

    def add_computed(self, name: str, direction: str, magnitude: str, axes: tuple[int, ...]) -> None:
        """Add ``magnitude * direction / norm(direction)``, norm over ``axes``, as if it were a parameter."""
        self._owned[name] = replace(self._owned[direction], name=name, tensor=None, others=())
        self._computed[name] = direction, magnitude, axes

    def array(self, name: str) -> np.ndarray:
        """A copy of the values, in the parameter's dtype."""
        if name not in self._computed:
            return self.framework.to_numpy(self._owned[name].tensor)
        direction, magnitude, axes = self._computed[name]
        v = self.array(direction)
        norm = _norm(v, axes)
        return (self.array(magnitude).reshape(norm.shape) * v / norm).astype(v.dtype)

    def stored(self, name: str, array: np.ndarray) -> dict[str, np.ndarray]:
        """What the model's own parameters must hold for ``name`` to be ``array``."""
        if name not in self._computed:
            return {name: array}
        direction, magnitude, axes = self._computed[name]
        return {direction: array, magnitude: _norm(array, axes).reshape(self._owned[magnitude].shape)}

    def behind(self, name: str) -> tuple[str, ...]:
        """The model's own parameters behind ``name``: itself, or what it is computed from."""
        return self._computed[name][:2] if name in self._computed else (name,)

    @property
    def persistent(self) -> frozenset[str]:
        """Names in the model's state dict."""
        return frozenset(self.model.state_dict().keys())


def _norm(v: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.sqrt((v.astype(np.float64) ** 2).sum(axis=axes, keepdims=True)).astype(v.dtype)
