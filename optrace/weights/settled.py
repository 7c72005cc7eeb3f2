"""Parameters that the user has settled: by rules, by a layer map, by registered special inits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optrace.weights.inventory import Inventory
from optrace.weights.plan import Row


@dataclass
class Settled:
    """Arrays by raw name, and the names of both sides that are out of the search."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    base: set[str] = field(default_factory=set)
    raw: set[str] = field(default_factory=set)

    def covers(self, raw: Inventory) -> bool:
        """Whether nothing is left to find."""
        return bool(self.arrays) and all(o.name in self.raw for o in raw if not o.buffer)


def settle(base: Inventory, raw: Inventory, rules: Any, layer_map: Any) -> Settled:
    return Settled()
