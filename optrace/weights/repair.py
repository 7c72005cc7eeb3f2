"""When the outputs disagree: find by values which parameters were mixed up, and exchange them.

With weights assigned, the first use whose input differs between the models tells where to look: either
another use of the base model has that input, or what feeds it was mixed up among parameters of one shape.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from optrace.align.values import epsilon
from optrace.diagnose.run import run_model
from optrace.errors import ModelError
from optrace.trace.records import Fingerprint, TensorRef, tensors_in
from optrace.weights.match import Matching, fits
from optrace.weights.plan import Plan
from optrace.weights.uses import Use
from optrace.weights.verify import Agreement

if TYPE_CHECKING:
    from optrace.weights.assign import Assignment

Pairs = list[tuple[Use, Use]]
Prints = dict[int, "tuple[Fingerprint | None, Fingerprint | None]"]
_SECONDS = 60.0
_MOST_ORDERS = 24


def search(assignment: Assignment, plan: Plan) -> tuple[Plan, Agreement] | None:
    """A plan whose outputs agree, found by exchanging parameters of ``plan``; ``None`` when there is none."""
    try:
        return _Search(assignment, plan).run()
    except ModelError:
        return None


class _Search:
    def __init__(self, assignment: Assignment, plan: Plan) -> None:
        assert assignment.traced is not None and assignment.inputs is not None
        self.assignment = assignment
        self.plan = plan
        self.base, self.raw = assignment.traced
        self.tolerance = 1e-3 + 50 * max(epsilon(o.dtype) for o in assignment.raw if not o.buffer)
        self.wanted = self._prints(assignment.base.model, assignment.inputs[0], self.base.reader.uses)
        self.deadline = time.monotonic() + _SECONDS
        rank = self.raw.flow.rank
        self.pairs: Pairs = sorted(plan.matching.pairs, key=lambda p: rank[p[1].call])

    def run(self) -> tuple[Plan, Agreement] | None:
        plan, agreement = self.plan, Agreement(False)
        seen: set[tuple[int, ...]] = set()
        while time.monotonic() < self.deadline:
            state = tuple(b.place for b, _ in self.pairs)
            if state in seen:
                return None
            seen.add(state)
            found = self._run_raw(self.pairs)
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
        value = found[raw.place][0]
        for other in range(at + 1, len(self.pairs)):
            theirs, mine = self.pairs[other]
            if (
                theirs.call == base.call
                or theirs.role != base.role
                or not (fits(theirs, raw) and fits(base, mine))
            ):
                continue
            if self._same(self.wanted[theirs.place][0], value):
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
        """The pairs with raw call ``k`` served by base call ``calls[k]``, role by role."""
        uses: dict[int, list[Use]] = {}
        for base, _ in self.pairs:
            uses.setdefault(base.call, []).append(base)
        result: Pairs = []
        for base, raw in self.pairs:
            if raw.call in calls:
                base = next((u for u in uses[calls[raw.call]] if u.role == base.role and fits(u, raw)), base)
            result.append((base, raw))
        return result

    # -- values ----------------------------------------------------------------------------------

    def _plan(self, pairs: Pairs) -> Plan:
        old = self.plan.matching
        matching = Matching(list(pairs), old.misfits, old.base_only, old.raw_only, old.score)
        return self.assignment.planned(matching, self.plan.method)

    def _run_raw(self, pairs: Pairs) -> Prints:
        self.assignment.write(self._plan(pairs).arrays)
        assert self.assignment.inputs is not None
        return self._prints(self.assignment.raw.model, self.assignment.inputs[1], self.raw.reader.uses)

    def _prints(self, model: object, inputs: object, uses: list[Use]) -> Prints:
        """Fingerprints of the input and the result of each use, by its place."""
        trace = run_model(model, inputs, train=False, level="stats")
        found: Prints = {}
        for use in uses:
            call = trace.calls[use.call]
            source = next((r for r in _refs(call.positional, call.keyword) if r.key == use.source), None)
            result = next(iter(tensors_in(call.outputs)), None)
            found[use.place] = (
                trace.stats(source) if source else None,
                trace.stats(result) if result else None,
            )
        return found

    def _first_disagreement(self, pairs: Pairs, found: Prints) -> int | None:
        for at, (base, raw) in enumerate(pairs):
            wanted, got = self.wanted[base.place][0], found[raw.place][0]
            if (
                wanted is not None
                and got is not None
                and wanted.count == got.count
                and not self._same(wanted, got)
            ):
                return at
        return None

    def _same(self, a: Fingerprint | None, b: Fingerprint | None) -> bool:
        """Whether two tensors hold the same values in whatever layout."""
        if a is None or b is None or a.count != b.count:
            return False
        limit = self.tolerance * max(a.rms, b.rms, 1e-30)
        pairs = ((a.mean, b.mean), (a.rms, b.rms), (a.abs_mean, b.abs_mean))
        if any(abs(x - y) > limit for x, y in pairs):
            return False
        return abs(a.minimum - b.minimum) <= 10 * limit and abs(a.maximum - b.maximum) <= 10 * limit


def _refs(*trees: object) -> list[TensorRef]:
    return tensors_in(list(trees))
