"""Layers that may change places without any effect: branches that are added up, say."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from optrace.weights.plan import Plan
from optrace.weights.uses import Use

if TYPE_CHECKING:
    from optrace.weights.assign import Assignment

_MOST_TRIES, _SECONDS = 12, 3.0


def ambiguous(assignment: Assignment, plan: Plan) -> list[tuple[str, ...]]:
    """Raw parameters, two or more to a group, that were exchanged and left the outputs as they were.

    Only layers that read one tensor and whose results go the same way are tried, few of them and not for
    long; ``plan`` is assigned again afterwards.
    """
    groups: dict[Hashable, list[dict[str, str]]] = defaultdict(list)
    for uses in _layers(assignment, plan).values():
        roles = {use.role: use.name for use in uses}
        main = max(uses, key=lambda u: u.size)
        if len(roles) == len(uses) and main.source is not None:
            likeness = (frozenset((u.role, u.shape) for u in uses), main.source, main.signature[:1])
            groups[likeness].append(roles)
    pairs = [p for group in groups.values() for p in itertools.combinations(group, 2)]
    found = []
    end = time.monotonic() + _SECONDS
    for first, second in pairs[:_MOST_TRIES]:
        if time.monotonic() > end:
            break
        exchanged = dict(plan.arrays)
        for role, name in first.items():
            exchanged[name], exchanged[second[role]] = exchanged[second[role]], exchanged[name]
        if all(np.array_equal(exchanged[n], plan.arrays[n]) for n in (*first.values(), *second.values())):
            continue  # equal values: nothing to mix up
        if assignment.attempt(exchanged).close:
            found.append((*first.values(), *second.values()))
    if pairs:
        assignment.attempt(plan.arrays)
    return found


def _layers(assignment: Assignment, plan: Plan) -> dict[str, list[Use]]:
    """The plain uses of the plan's raw parameters, by layer; used twice, a layer has no one place."""
    found: dict[str, list[Use]] = defaultdict(list)
    for _, use in plan.matching.pairs:
        if use.plain and not use.buffer and use.name in plan.arrays:
            owned = assignment.raw[use.name]
            found[owned.layer or use.name].append(use)
    return found
