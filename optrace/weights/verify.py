"""Do the two models give the same outputs? Runs them forward and leaves them as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.align.values import as_float, epsilon
from optrace.diagnose.run import call_arguments, mode

# A model's depth multiplies rounding: what a wrong weight does is far beyond this many units.
_UNITS = 2000.0


@dataclass(frozen=True)
class Agreement:
    """The comparison of two lists of outputs: the largest difference, relative to the base's largest value.

    ``close`` is ``None`` when there was nothing to compare.
    """

    close: bool | None
    difference: float = 0.0
    compared: int = 0
    note: str = ""


def forward(model: Any, inputs: Any) -> list[np.ndarray]:
    """All output arrays of one eval-mode run without gradients, in order; dtypes as the model gives them.

    Raises what the model raises; modes and the generator are restored either way.
    """
    framework = frameworks.of_module(model)
    args, kwargs = call_arguments(framework, inputs)
    state = framework.rng_state()
    try:
        with framework.no_grad(), mode(framework, model, False), framework.unfused():
            result = model(*args, **kwargs)
    finally:
        framework.set_rng_state(state)
    return [framework.to_numpy(t) for t in _flat(result) if framework.is_tensor(t)]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, Mapping):
        result = list(result.values())
    elif hasattr(result, "to_tuple"):
        result = result.to_tuple()
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in _flat(item)]
    return [result]


def compare(base: list[np.ndarray], raw: list[np.ndarray], coarsest: float = 0.0) -> Agreement:
    """Compare outputs in order; where the numbers of outputs differ, those of equal shape in order.

    ``coarsest`` is the epsilon of the coarsest dtype that either model computes in.
    """
    if len(base) != len(raw):
        base, raw = _same_shapes(base, raw)
    worst, compared = 0.0, 0
    close = True
    for a, b in zip(base, raw):
        if a.shape != b.shape:
            if a.size != b.size:
                return Agreement(
                    False, float("inf"), compared, f"an output is {list(a.shape)} and {list(b.shape)}"
                )
            b = b.reshape(a.shape)
        if not a.size:
            continue
        compared += 1
        left, right = as_float(a), as_float(b)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            gap = np.where(same, 0.0, np.abs(left - right))
        finite = np.abs(left[np.isfinite(left)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        found = float(np.nan_to_num(gap, nan=np.inf).max()) / scale
        worst = max(worst, found)
        limit = _UNITS * max(epsilon(str(a.dtype)), epsilon(str(b.dtype)), coarsest)
        close = close and found <= min(limit, 0.05)
    if not compared:
        return Agreement(None, note="the models return no tensors that can be compared")
    return Agreement(close, worst, compared)


def _same_shapes(base: list[np.ndarray], raw: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rest = list(raw)
    pairs = []
    for a in base:
        for i, b in enumerate(rest):
            if a.shape == b.shape:
                pairs.append((a, rest.pop(i)))
                break
    return [a for a, _ in pairs], [b for _, b in pairs]
