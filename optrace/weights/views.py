"""Tensors seen as elements of parameters: what moves and slices made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.trace.records import Call, DtypeRef, TensorRef

Replay = Callable[[list[np.ndarray]], Any]


@dataclass(frozen=True)
class View:
    """A tensor of shape ``shape`` whose elements are elements of the parameters ``names``.

    ``replay`` repeats the move on index arrays of its ``sources``; a leaf has neither.
    ``exact`` is false where something was computed on the way (``v * g / |v|``, a norm) that mixes
    elements, so that only the names are known.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    sources: tuple[View, ...] = ()
    replay: Replay | None = None
    exact: bool = True
    chain: tuple[str, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return self.replay is None and not self.sources

    @property
    def whole(self) -> tuple[int, ...] | None:
        """The shape of the parameter behind a view of a single one, without axes of length one."""
        if len(self.names) != 1 or not self.exact:
            return None
        shape = self.shape if self.is_leaf else self.sources[0].whole
        return tuple(d for d in shape if d != 1) if shape is not None else None

    def index(self, starts: dict[str, int], sizes: dict[str, tuple[int, ...]]) -> np.ndarray:
        """Positions of the elements, int64, in an array where parameter ``n`` starts at ``starts[n]``."""
        if self.is_leaf:
            shape = sizes[self.names[0]]
            n = int(np.prod(shape, dtype=np.int64))
            return np.arange(starts[self.names[0]], starts[self.names[0]] + n, dtype=np.int64).reshape(shape)
        inner = [source.index(starts, sizes) for source in self.sources]
        if self.replay is None:
            return inner[0].reshape(self.shape)
        return np.asarray(self.replay(inner))


def moved(
    call: Call, sources: list[View], keys: list[tuple[int, int]], output: int | None, shape: Any
) -> View:
    """The view that a recorded move of ``sources`` gives as its ``output``-th result."""
    names = tuple(dict.fromkeys(n for s in sources for n in s.names))
    chain = tuple(dict.fromkeys(c for s in sources for c in s.chain))

    def replay(indices: list[np.ndarray]) -> np.ndarray:
        result = repeat(call, dict(zip(keys, indices)))
        if output is not None:
            result = result[output]
        return result if result.shape == tuple(shape) else result.reshape(shape)

    exact = all(s.exact for s in sources)
    return View(names, tuple(shape), tuple(sources), replay, exact, chain)


def repeat(call: Call, arrays: dict[tuple[int, int], np.ndarray]) -> Any:
    """Run a recorded move again on integer arrays; a list of arrays where it gives several."""
    framework = frameworks.get(call.framework)
    function = framework.resolve(call.api)

    def live(item: Any) -> Any:
        if isinstance(item, TensorRef):
            array = arrays.get(item.key)
            return framework.from_numpy(np.zeros(item.shape, "int64") if array is None else array)
        if isinstance(item, DtypeRef):
            return framework.dtype("int64")
        if isinstance(item, (list, tuple)):
            return type(item)(live(i) for i in item)
        return item

    with framework.no_grad():
        result = function(
            *(live(a) for a in call.positional), **{k: live(v) for k, v in call.keyword.items()}
        )
    if isinstance(result, (list, tuple)):
        return [framework.to_numpy(r) for r in result]
    return framework.to_numpy(result)
