"""Find the base value that equals a raw value, in the same or in another layout."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from optrace.align.graph import Graph, Key, uninitialised
from optrace.align.values import agree, as_float, clearly_apart, difference, epsilon

# A value with at most this many distinct, round elements (masks, zeros, flags) says little by itself.
FEW = 3
# Candidates from the features are looked at closely when their norms are within this share.
_NEAR = 1e-3
_SAMPLE = 100_000


class Layout(NamedTuple):
    """How a raw value is had from its base value: transpose by ``axes`` (or not), then reshape."""

    axes: tuple[int, ...] | None
    shape: tuple[int, ...]

    def apply(self, base: np.ndarray) -> np.ndarray:
        moved = base if self.axes is None else base.transpose(self.axes)
        return moved.reshape(self.shape)

    @property
    def is_plain(self) -> bool:
        return self.axes is None


class Match(NamedTuple):
    """A base value that a raw value equals."""

    key: Key
    layout: Layout
    strict: bool
    gap: float = 0.0


class _Features(NamedTuple):
    norm: float
    distinct_few: bool


def features(array: np.ndarray) -> _Features:
    flat = as_float(array).reshape(-1)
    norm = float(np.sqrt(flat @ flat))
    if not math.isfinite(norm):
        flat = np.where(np.isfinite(flat), flat, 0.0)
        norm = float(np.sqrt(flat @ flat))
    sample = flat if flat.size <= _SAMPLE else flat[:_SAMPLE]
    few = (
        np.unique(sample[:64]).size <= FEW
        and (distinct := np.unique(sample)).size <= FEW
        and _round(distinct)
    )
    return _Features(norm, bool(few))


def _round(numbers: np.ndarray) -> bool:
    """Whether all are numbers that a person types: few binary digits, or the huge ones of masks."""
    return bool(np.all((numbers * 64 == np.round(numbers * 64)) | (np.abs(numbers) >= 1e3)))


def is_weak(array: np.ndarray) -> bool:
    """Whether equality with this value is no evidence of doing the same thing."""
    return array.size == 0 or features(array).distinct_few


class ValueIndex:
    """All values of a graph's trace (inner calls included), searchable by content."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._by_size: dict[int, list[tuple[float, Key]]] = defaultdict(list)
        self._features: dict[Key, _Features] = {}
        for key, ref in graph.refs.items():
            if not any(map(uninitialised, graph.makers.get(key, ())[:1])):
                self.add(key, graph.trace.value(ref))

    def add(self, key: Key, value: np.ndarray | None) -> None:
        """Make a value findable; ``None`` and empty ones are left out."""
        if value is None or value.size == 0 or key in self._features:
            return
        found = self._features[key] = features(value)
        bisect.insort(self._by_size[value.size], (found.norm, key))

    def weak(self, key: Key) -> bool:
        found = self._features.get(key)
        return found is None or found.distinct_few

    def find(self, value: np.ndarray, dtype: str, reduction: int, moved: bool) -> list[Match]:
        """Base values equal to ``value`` up to rounding in ``dtype``.

        The same shape comes first, the nearest of them ahead; then the same elements in the same order in another shape;
        with ``moved`` also those with transposed axes.
        """
        if value.size == 0:
            return []
        f = features(value)
        row = self._by_size.get(value.size, [])
        slack = _NEAR * f.norm + 1e-30
        low = bisect.bisect_left(row, (f.norm - slack, (-(10**18), 0)))
        strict: list[Match] = []
        loose: list[Match] = []
        for norm, key in itertools.islice(row, low, None):
            if norm > f.norm + slack:
                break
            base = self.graph.trace.value(self.graph.refs[key])
            if base is None:
                continue
            same_order = base if base.shape == value.shape else base.reshape(value.shape)
            gap = _gap(same_order, value, dtype, reduction)
            if gap is not None:
                plain = Match(key, Layout(None, value.shape), base.shape == value.shape, gap)
                (strict if plain.strict else loose).append(plain)
                continue
            if moved and not f.distinct_few:
                axes = transposition(base, value, dtype, reduction)
                if axes is not None:
                    loose.append(Match(key, Layout(axes, value.shape), False))
        strict.sort(key=lambda m: m.gap)
        # A value that is merely close (a norm that hardly changes its input) is another one.
        limit = 3 * strict[0].gap + 2 * epsilon(dtype) if strict else 0.0
        return [m for m in strict if m.gap <= limit] + loose


def transposition(
    base: np.ndarray, raw: np.ndarray, dtype: str, reduction: int = 1
) -> tuple[int, ...] | None:
    """Axes such that ``base.transpose(axes).reshape(raw.shape)`` equals ``raw``; ``None`` without any."""
    if base.ndim < 2 or base.ndim > 6:
        return None
    dims = [d for d in raw.shape if d != 1]
    for axes in itertools.permutations(range(base.ndim)):
        if axes == tuple(range(base.ndim)):
            continue
        moved = base.transpose(axes)
        if [d for d in moved.shape if d != 1] != dims:
            continue
        probe = moved.reshape(-1)[:8], raw.reshape(-1)[:8]
        if not np.allclose(as_float(probe[0]), as_float(probe[1]), rtol=1e-2, atol=1e-3, equal_nan=True):
            continue
        if _gap(moved.reshape(raw.shape), raw, dtype, reduction) is not None:
            return axes
    return None


def _gap(base: np.ndarray, raw: np.ndarray, dtype: str, reduction: int) -> float | None:
    """The scaled error of two arrays that agree up to rounding; ``None`` when they do not."""
    if clearly_apart(base, raw, dtype, reduction):
        return None
    found = difference(base, raw, dtype)
    return found.scaled if agree(found, dtype, reduction) else None


def same_elements(base: np.ndarray, raw: np.ndarray) -> bool:
    """Whether two arrays hold the same numbers in any order."""
    if base.size != raw.size or base.size == 0:
        return False
    a, b = np.sort(as_float(base).reshape(-1)), np.sort(as_float(raw).reshape(-1))
    scale = max(float(np.abs(a[np.isfinite(a)]).max(initial=0.0)), 1e-30)
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6 * scale, equal_nan=True)) and math.isfinite(scale)
