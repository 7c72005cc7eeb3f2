"""Which of base's draws a random call is to be given."""

from __future__ import annotations

import math

import numpy as np

from optrace.randomness.draws import Draw


class Pool:
    """Base's draws, each given once."""

    def __init__(self, draws: list[Draw]) -> None:
        self._left = list(draws)

    def take(
        self, family: str, read: np.ndarray | None, shape: tuple[int, ...] | None, freedom: int | None = None
    ) -> Draw | None:
        """The first draw made on the same values, else the first of the same shape, else of the same size.

        A call that draws ``freedom`` numbers is given no draw of fewer: dropping elements is not what
        dropping channels is.
        """
        fitting = [
            d
            for d in self._left
            if d.family == family and _fits(d, shape) and (freedom is None or freedom <= d.freedom)
        ]
        chosen = next((d for d in fitting if equal(d.read, read)), None)
        if chosen is None:
            chosen = next((d for d in fitting if shape is None or d.values.shape == shape), None)
        if chosen is None:
            chosen = next(iter(fitting), None)
        if chosen is not None:
            # By identity: comparing draws would compare arrays.
            self._left = [d for d in self._left if d is not chosen]
            return _laid_out(chosen, read)
        return None


def _laid_out(draw: Draw, read: np.ndarray | None) -> Draw:
    """The draw in the axis order of a call that reads ``read``: channels last or first, batch second."""
    if read is None or draw.read is None or draw.read.shape != draw.values.shape or equal(draw.read, read):
        return draw
    rest = range(2, read.ndim)
    for axes in ((0, *rest, 1), (0, read.ndim - 1, *range(1, read.ndim - 1)), (1, 0, *rest)):
        if len(axes) == draw.read.ndim > 2 and equal(draw.read.transpose(axes), read):
            return draw._replace(values=np.ascontiguousarray(draw.values.transpose(axes)))
    return draw


def _fits(draw: Draw, shape: tuple[int, ...] | None) -> bool:
    return shape is None or draw.values.size == math.prod(shape)


def equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None or a.shape != b.shape or a.dtype.kind not in "fiub":
        return False
    return bool(np.allclose(a.astype("float64"), b.astype("float64"), rtol=1e-4, atol=1e-5, equal_nan=True))
