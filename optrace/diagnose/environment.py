"""What the calls of a forced run are fed with."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import numpy as np

from optrace.align.graph import Key
from optrace.align.index import Layout
from optrace.trace.arrays import Arrays
from optrace.trace.model import Trace


class Environment(MutableMapping[Key, np.ndarray]):
    """Values by raw key: base's, in raw's layout and dtype, or others.

    Base's are looked up when they are asked for, so that they need no memory twice. ``under`` answers for
    keys that were never set here.
    """

    def __init__(self, base: Trace, under: Environment | None = None) -> None:
        self._base = base
        self._under = under
        self._followed: dict[Key, tuple[Key, Layout, np.dtype]] = {}
        self._own: MutableMapping[Key, np.ndarray] = {} if under is not None else Arrays()

    def over(self) -> Environment:
        """The same values; what is set there is not set here."""
        return Environment(self._base, self)

    def follow(self, key: Key, base: Key, layout: Layout, dtype: np.dtype) -> None:
        """Feed base's value ``base``."""
        self._own.pop(key, None)
        self._followed[key] = (base, layout, dtype)

    def __getitem__(self, key: Key) -> np.ndarray:
        followed = self._followed.get(key)
        if followed is None:
            found = self._own.get(key)
            if found is None and self._under is not None:
                return self._under[key]
            if found is None:
                raise KeyError(key)
            return found
        base, layout, dtype = followed
        value = self._base.value_of(base)
        if value is None:
            raise KeyError(key)
        return layout.apply(value).astype(dtype, copy=False)

    def __setitem__(self, key: Key, value: np.ndarray) -> None:
        self._followed.pop(key, None)
        self._own[key] = value

    def __delitem__(self, key: Key) -> None:
        if self._followed.pop(key, None) is None:
            del self._own[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys([*self._followed, *self._own, *(self._under or ())]))

    def __len__(self) -> int:
        return len(list(iter(self)))
