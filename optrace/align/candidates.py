"""Base values that may hold a given value's numbers, found by their fingerprints."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from optrace.align.graph import Key
from optrace.trace.records import Fingerprint

# Where more values than these look alike (one constant made anew in each step), the nearest in place count.
MOST = 8


class Candidates:
    """Values by number of elements, then by root mean square.

    ``rows``: fingerprint, key and place (position in the run) of each value.
    """

    def __init__(self, rows: Iterable[tuple[Fingerprint, Key, int]]) -> None:
        by_size: dict[int, list[tuple[Fingerprint, Key, int]]] = defaultdict(list)
        for row in rows:
            by_size[row[0].count].append(row)
        self._sizes = {size: _Size(found) for size, found in by_size.items()}

    def near(self, found: Fingerprint, limit: float, place: int) -> list[tuple[Fingerprint, Key]]:
        """Values whose relative L2 distance from ``found``'s may be at most ``limit``.

        At most ``MOST``, those made next to ``place``.
        """
        size = self._sizes.get(found.count)
        return size.near(found, limit, place) if size is not None else []


class _Size:
    """The values of one number of elements."""

    def __init__(self, rows: list[tuple[Fingerprint, Key, int]]) -> None:
        rows.sort(key=lambda row: (row[0].rms, row[2]))
        self._rms = [found.rms for found, _, _ in rows]
        self._rows = [(found, key) for found, key, _ in rows]
        self._places = np.array([place for _, _, place in rows])
        self._means = np.array([(found.mean, found.abs_mean) for found, _, _ in rows])

    def near(self, found: Fingerprint, limit: float, place: int) -> list[tuple[Fingerprint, Key]]:
        # |rms(x) - rms(y)|, |mean(x) - mean(y)| and the like are all at most rms(x - y).
        slack = 2 * limit * found.rms + 1e-30
        low = bisect.bisect_left(self._rms, found.rms - slack)
        high = bisect.bisect_right(self._rms, found.rms + slack, lo=low)
        if high - low <= MOST:
            return self._rows[low:high]
        apart = np.abs(self._means[low:high] - (found.mean, found.abs_mean)).max(1)
        kept = low + np.flatnonzero(apart <= slack)
        if len(kept) > MOST:
            away = np.abs(self._places[kept] - place)
            kept = kept[np.argpartition(away, MOST)[:MOST]]
        return [self._rows[i] for i in kept.tolist()]
