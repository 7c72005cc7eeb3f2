"""When the outputs disagree: find by values which parameters were mixed up, and exchange them.

With weights assigned, the first use whose input differs between the models tells where to look: either
another use of the base model has that input, or what feeds it was mixed up among parameters of one shape.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optrace.align.values import as_float, epsilon
from optrace.diagnose.run import run_model
from optrace.errors import ModelError
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.weights.match import Matching, fits
from optrace.weights.plan import Plan
from optrace.weights.uses import Use
from optrace.weights.verify import Agreement

if TYPE_CHECKING:
    from optrace.weights.assign import Assignment, Side

Pairs = list[tuple[Use, Use]]
Prints = dict[int, "Print | None"]
_SECONDS = 8.0
_MOST_PLANS = 4
_MOST_ORDERS = 24


def search(assignment: Assignment, plans: list[Plan]) -> tuple[Plan, Agreement] | None:
    """A plan whose outputs agree, found by exchanging parameters of the most promising of ``plans``.

    Without one: the plan with which the values agree furthest. ``None`` when the models can't be run.
    """
    try:
        searches = [_Search(assignment, plan) for plan in plans[:_MOST_PLANS]]
        best = max(searches, key=lambda s: s.agreeing()) if len(searches) > 1 else searches[0]
        found = best.run()
        return found if found is not None else (best.plan, assignment.attempt(best.plan.arrays))
    except ModelError:
        return None


@dataclass(frozen=True)
class Print:
    """What two tensors of equal values have in common whatever their layout."""

    count: int
    mean: float
    rms: float
    abs_mean: float
    minimum: float
    maximum: float


def _print(trace: Trace, ref: TensorRef) -> Print | None:
    value = trace.value(ref)
    if value is None or not value.size:
        return None
    flat = as_float(value)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return None
    size = np.abs(flat)
    rms = float(np.sqrt(np.square(flat).mean()))
    return Print(
        value.size, float(flat.mean()), rms, float(size.mean()), float(flat.min()), float(flat.max())
    )


class _Search:
    def __init__(self, assignment: Assignment, plan: Plan) -> None:
        assert assignment.traced is not None and assignment.inputs is not None
        self.assignment = assignment
        self.plan = plan
        self.deadline = time.monotonic() + _SECONDS
        self.base, self.raw = assignment.traced
        self.tolerance = 1e-3 + 50 * max(epsilon(o.dtype) for o in assignment.raw if not o.buffer)
        if assignment.wanted is None:
            assignment.wanted = self._prints(self.base, assignment.inputs[0])
        self.wanted: Prints = assignment.wanted
        rank = self.raw.flow.rank
        pairs = _by_occurrence(plan.matching.pairs, self.base.reader.uses, self.raw.reader.uses)
        self.pairs: Pairs = sorted(pairs, key=lambda p: rank[p[1].call])
        self._start = self.pairs
        self._first: Prints | None = None
        self._base_calls = _occurrences(self.base.reader.uses)
        self._raw_calls = _occurrences(self.raw.reader.uses)

    def agreeing(self) -> int:
        """How many uses have the same input as their partner."""
        found = self._first = self._run_raw(self.pairs)
        return sum(self._same(self.wanted[b.place], found[r.place]) for b, r in self.pairs)

    def run(self) -> tuple[Plan, Agreement] | None:
        seen: set[tuple[int, ...]] = set()
        while time.monotonic() < self.deadline:
            state = tuple(b.place for b, _ in self.pairs)
            if state in seen:
                return None
            seen.add(state)
            found, self._first = self._first or self._run_raw(self.pairs), None
            at = self._first_disagreement(self.pairs, found)
            if at is None:
                plan = self._plan(self.pairs)
                agreement = self.assignment.attempt(plan.arrays)
                return (plan, agreement) if plan.complete and agreement.close else None
            changed = self._partner_of(at, found) or self._reordered(at)
            if changed is None:
                return None
            self.pairs = changed
        return None

    # -- one step --------------------------------------------------------------------------------

    def _partner_of(self, at: int, found: Prints) -> Pairs | None:
        """Exchange the partner of pair ``at`` for the later base use that has its very input."""
        base, raw = self.pairs[at]
        value = found[raw.place]
        for other in range(at + 1, len(self.pairs)):
            theirs, mine = self.pairs[other]
            if (
                theirs.call == base.call
                or theirs.role != base.role
                or not (fits(theirs, raw) and fits(base, mine))
            ):
                continue
            if self._same(self.wanted[theirs.place], value):
                return self._exchanged({raw.call: theirs.call, mine.call: base.call})
        return None

    def _reordered(self, at: int) -> Pairs | None:
        """Another order of what feeds pair ``at`` with which its input agrees."""
        raw = self.pairs[at][1]
        feeding = {use.call for use in self.raw.flow.feeding(raw.source)}
        before = [(b, r) for b, r in self.pairs[:at] if r.call in feeding]
        for run in self._runs(before):
            calls = [b.call for b, _ in run]
            orders = itertools.islice(itertools.permutations(calls), 1, _MOST_ORDERS)
            for order in orders:
                changed = self._exchanged({r.call: call for (_, r), call in zip(run, order)})
                now = self._first_disagreement(changed, self._run_raw(changed))
                if now is None or now > at:
                    return changed
                if time.monotonic() > self.deadline:
                    return None
        return None

    def _runs(self, pairs: Pairs) -> list[Pairs]:
        """Sets of pairs that may change places: one kind, one call each."""
        runs: dict[object, dict[int, tuple[Use, Use]]] = {}
        for base, raw in pairs:
            if base.role == raw.role and not raw.widths and not base.widths:
                runs.setdefault((base.role, base.shape), {}).setdefault(raw.call, (base, raw))
        return [list(run.values()) for run in runs.values() if len(run) > 1]

    def _exchanged(self, calls: dict[int, int]) -> Pairs:
        """The pairs with raw call ``k`` served by base call ``calls[k]``, role by role.

        A layer that runs several times changes its partner everywhere.
        """
        everywhere: dict[int, int] = {}
        for raw, base in calls.items():
            theirs, mine = self._base_calls[base], self._raw_calls[raw]
            everywhere.update(zip(mine, theirs if len(theirs) == len(mine) else [base] * len(mine)))
        uses: dict[int, list[Use]] = {}
        for use in self.base.reader.uses:
            uses.setdefault(use.call, []).append(use)
        result: Pairs = []
        for base_use, raw_use in self.pairs:
            if raw_use.call in everywhere:
                options = uses[everywhere[raw_use.call]]
                base_use = next(
                    (u for u in options if u.role == base_use.role and fits(u, raw_use)), base_use
                )
            result.append((base_use, raw_use))
        return result

    # -- values ----------------------------------------------------------------------------------

    def _plan(self, pairs: Pairs) -> Plan:
        old = self.plan.matching
        matching = Matching(list(pairs), old.misfits, old.base_only, old.raw_only, old.score)
        return self.assignment.planned(matching, self.plan.method)

    def _run_raw(self, pairs: Pairs) -> Prints:
        arrays = self.plan.arrays if pairs is self._start else self._plan(pairs).arrays
        self.assignment.write(arrays)
        assert self.assignment.inputs is not None
        return self._prints(self.raw, self.assignment.inputs[1])

    def _prints(self, side: Side, inputs: object) -> Prints:
        """A summary of the input of each use, by its place."""
        trace = run_model(side.inventory.model, inputs, train=False, level="full")
        found: Prints = {}
        for use in side.reader.uses:
            call, before = trace.calls[use.call], side.trace.calls[use.call]
            # Tensors are numbered anew in every run; their places in the call stay.
            at = next((i for i, r in enumerate(_inputs(before)) if r.key == use.source), None)
            refs = _inputs(call)
            source = refs[at] if at is not None and at < len(refs) else None
            found[use.place] = _print(trace, source) if source is not None else None
        return found

    def _first_disagreement(self, pairs: Pairs, found: Prints) -> int | None:
        for at, (base, raw) in enumerate(pairs):
            wanted, got = self.wanted[base.place], found[raw.place]
            if (
                wanted is not None
                and got is not None
                and wanted.count == got.count
                and not self._same(wanted, got)
            ):
                return at
        return None

    def _same(self, a: Print | None, b: Print | None) -> bool:
        """Whether two tensors hold the same values in whatever layout."""
        if a is None or b is None or a.count != b.count:
            return False
        limit = self.tolerance * max(a.rms, b.rms, 1e-30)
        pairs = ((a.mean, b.mean), (a.rms, b.rms), (a.abs_mean, b.abs_mean))
        if any(abs(x - y) > limit for x, y in pairs):
            return False
        return abs(a.minimum - b.minimum) <= 10 * limit and abs(a.maximum - b.maximum) <= 10 * limit


def _by_occurrence(pairs: Pairs, base: list[Use], raw: list[Use]) -> Pairs:
    """The pairs with the k-th use of a parameter against the k-th of its partner."""
    result: Pairs = []
    done: set[tuple[object, ...]] = set()
    for theirs, mine in pairs:
        if (key := (theirs.view.names, theirs.role, mine.view.names, mine.role)) in done:
            continue
        done.add(key)
        left = [u for u in base if (u.view.names, u.role) == key[:2]]
        right = [u for u in raw if (u.view.names, u.role) == key[2:]]
        same = len(left) == len(right) > 1 and not theirs.widths and not mine.widths
        result.extend(zip(left, right) if same else [(theirs, mine)])
    return result


def _occurrences(uses: list[Use]) -> dict[int, list[int]]:
    """For each call, all calls that use the same parameters, in order."""
    names: dict[int, list[str]] = {}
    for use in uses:
        names.setdefault(use.call, []).extend(use.view.names)
    calls: dict[tuple[str, ...], list[int]] = {}
    for call, used in names.items():
        calls.setdefault(tuple(used), []).append(call)
    return {call: calls[tuple(used)] for call, used in names.items()}


def _inputs(call: Call) -> list[TensorRef]:
    return tensors_in([call.positional, call.keyword])
