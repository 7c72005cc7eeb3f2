"""``assign_weight``: carry the base model's weights over to the raw model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from optrace.align.values import epsilon
from optrace.diagnose.run import run_model, sides
from optrace.errors import ModelError, WeightError
from optrace.weights import by_structure, repair
from optrace.weights.ambiguous import ambiguous
from optrace.weights.by_use import UseReader
from optrace.weights.flow import Flow
from optrace.weights.fold import Folding, computes
from optrace.weights.fuse import join_siblings, same_order
from optrace.weights.inventory import Inventory
from optrace.weights.match import Matching, match
from optrace.weights.notes import notes
from optrace.weights.plan import Plan, build
from optrace.weights.report import WeightReport, failure
from optrace.weights.settled import Settled, Settler
from optrace.weights.uses import Use
from optrace.weights.verify import Agreement, compare, forward


def assign_weight(
    base_model: Any,
    raw_model: Any,
    inputs: Any = None,
    *,
    layer_map: Any = None,
    rules: Any = None,
) -> WeightReport:
    """Give ``raw_model`` the weights of ``base_model``; either may be of either framework.

    ``inputs``: a dict (or tuple) of numpy arrays for both models, or a pair of them; with inputs the
    parameters are matched by what they are used for and the result is verified by running both.
    ``layer_map``: pairs of layers, as objects or names (``{base: raw}`` or a list of pairs).
    ``rules``: ``{raw parameter: base parameter}`` or a list of rules, see ``optrace.weights.rules``.

    Raises ``WeightError`` when a parameter in use finds no counterpart; then nothing was assigned.
    """
    return Assignment(base_model, raw_model, inputs, layer_map, rules).run()


class Assignment:
    """One run of ``assign_weight``."""

    def __init__(self, base_model: Any, raw_model: Any, inputs: Any, layer_map: Any, rules: Any) -> None:
        self.base = Inventory(base_model)
        self.raw = Inventory(raw_model)
        self.inputs = sides(base_model, raw_model, inputs) if inputs is not None else None
        self.notes: list[str] = []
        self.given = rules, layer_map
        self.settled = Settled()
        self.traced: tuple[Side, Side] | None = None
        self._expected: list[np.ndarray] | None = None
        self.wanted: repair.Prints | None = None  # what goes into base's uses, kept between repairs
        floats = [epsilon(o.dtype) for side in (self.base, self.raw) for o in side if not o.buffer]
        self._coarsest = max(floats, default=epsilon("float32"))

    def run(self) -> WeightReport:
        before = {owned.name: self.raw.array(owned.name) for owned in self.raw}
        try:
            return self._report(*self.solve())
        except BaseException:
            self.write(before)
            raise

    def solve(self) -> tuple[Plan, Agreement]:
        """The best complete plan, its arrays assigned. Raises ``WeightError``."""
        self._trace()
        uses = [side.ordered("data", False) for side in self.traced] if self.traced is not None else []
        both = (uses[0], uses[1]) if uses else (by_structure.read(self.base), by_structure.read(self.raw))
        self.settled = Settler(self.base, self.raw, both).settle(*self.given)
        tried: list[tuple[Plan, Agreement]] = []
        worst: list[Plan] = []
        for plan in self._plans():
            if not plan.complete:
                worst.append(plan)
                continue
            tried.append((plan, self.attempt(plan.arrays)))
            if tried[-1][1].close is not False:
                return tried[-1]
        if not tried:
            plan = self.planned(self._structure(), "structure") if self.traced is not None else worst[0]
            if not plan.complete:
                nearest = min(worst, key=lambda p: p.faults)
                raise WeightError(failure(nearest, self.base, self.raw, notes=self.notes))
            return plan, self.attempt(plan.arrays)
        for plan, _ in tried[:1]:
            regrouped = self._regrouped(plan)
            if regrouped is not None and (agreement := self.attempt(regrouped.arrays)).close:
                return regrouped, agreement
        plan, agreement = min(tried, key=lambda t: t[1].difference)
        if self.traced is not None:
            plan, agreement = repair.search(self, [p for p, _ in tried]) or (plan, agreement)
        self.attempt(plan.arrays)
        return plan, agreement

    # -- candidates ------------------------------------------------------------------------------

    def _trace(self) -> None:
        """Read the uses of both models, where inputs were given and the models run."""
        if self.inputs is None:
            return
        try:
            self.traced = Side(self.base, self.inputs[0]), Side(self.raw, self.inputs[1])
            for name, side in zip(("base", "raw"), self.traced):
                self.notes += [f"{name}: {said}" for said in dict.fromkeys(side.reader.unread)]
        except ModelError as error:
            self.notes.append(
                f"the models could not be run, so their structure was compared instead: {error}"
            )

    def _plans(self) -> Iterator[Plan]:
        """Ways to pair the parameters, the most trustworthy first; equal ones once."""
        if self.settled.covers(self.raw):
            yield self._with_settled(Plan(method="rules"))
            return
        seen: list[set[tuple[Any, ...]]] = []
        for matching in self._matchings():
            places = {(b.view.names, r.view.names, *b.widths, *r.widths) for b, r in matching.pairs}
            if places not in seen:
                seen.append(places)
                yield self.planned(matching, "use" if self.traced is not None else "structure")

    def _matchings(self) -> Iterator[Matching]:
        if self.traced is None:
            yield self._structure()
            return
        base, raw = self.traced
        for last in (False, True):
            for first_only in (False, True):
                for order in ("data", "calls"):
                    yield self._match(base.ordered(order, first_only), raw.ordered(order, first_only), last)
                if not last:
                    uses = base.ordered("data", first_only), raw.ordered("data", first_only)
                    yield self._match(*uses, last, by_name=True)
        if any(computes(side.reader.uses) for side in self.traced):
            folded = [side.folding.fold(side.ordered("data", False)) for side in self.traced]
            yield self._match(folded[0], folded[1], last=False)

    def _structure(self) -> Matching:
        return self._match(
            by_structure.read(self.base), by_structure.read(self.raw), last=False, by_name=True
        )

    def _match(self, base: list[Use], raw: list[Use], last: bool, by_name: bool = False) -> Matching:
        base = [u for u in base if not self.settled.base.issuperset(u.view.names)]
        raw = [u for u in raw if not self.settled.raw.issuperset(u.view.names)]
        if self.traced is not None and computes(base) != computes(raw):
            base, raw = self.traced[0].folding.fold(base), self.traced[1].folding.fold(raw)
        cut = [side.flow.column_groups for side in self.traced] if self.traced is not None else [None, None]
        options = [(base, raw)]
        joined_raw, base_for_raw = join_siblings(raw, base, cut[0], last)
        options.append((base_for_raw, joined_raw))
        options.append(join_siblings(base_for_raw, joined_raw, cut[1], last))
        found = [match(b, r, by_name) for b, r in options]
        return max(found, key=lambda m: (-len(m.misfits) - len(m.base_only) - len(m.raw_only), m.score))

    def _regrouped(self, plan: Plan) -> Plan | None:
        """``plan`` with the columns of fused matrices in one order; ``None`` if they are already."""
        if self.traced is None:
            return None
        old = plan.matching
        pairs = same_order(old.pairs, self.traced[0].flow.partition, self.traced[1].flow.partition)
        if all(a is b for new, pair in zip(pairs, old.pairs) for a, b in zip(new, pair)):
            return None
        return self.planned(Matching(pairs, old.misfits, old.base_only, old.raw_only, old.score), plan.method)

    def planned(self, matching: Matching, method: str) -> Plan:
        """The plan of a matching, with what the user has settled."""
        return self._with_settled(build(matching, self.base, self.raw, method))

    def _with_settled(self, plan: Plan) -> Plan:
        plan.arrays.update(self.settled.arrays)
        plan.rows = self.settled.rows + plan.rows
        return plan

    # -- trying ----------------------------------------------------------------------------------

    def write(self, arrays: dict[str, np.ndarray]) -> None:
        for name, array in arrays.items():
            for own, values in self.raw.stored(name, array).items():
                self.raw.framework.assign(self.raw[own].tensor, values)

    def attempt(self, arrays: dict[str, np.ndarray]) -> Agreement:
        """Assign, then run both models."""
        self.write(arrays)
        if self.inputs is None:
            return Agreement(None, note="no inputs given")
        try:
            if self._expected is None:
                self._expected = forward(self.base.model, self.inputs[0])
            return compare(self._expected, forward(self.raw.model, self.inputs[1]), self._coarsest)
        except Exception as error:  # a user's model may raise anything
            return Agreement(None, note=f"a model raised {type(error).__name__}: {error}")

    # -- the result ------------------------------------------------------------------------------

    def _report(self, plan: Plan, agreement: Agreement) -> WeightReport:
        shapes = {f"b:{o.name}": str(list(o.shape)) for o in self.base}
        shapes.update({f"r:{o.name}": str(list(o.shape)) for o in self.raw})
        taken = {own for row in plan.rows for name in row.base for own in self.base.behind(name)}
        given = {own for name in plan.arrays for own in self.raw.behind(name)}
        said = [*self.notes, *notes(plan, self.base, self.raw, self.traced is not None)]
        report = WeightReport(plan.rows, notes=said, shapes=shapes)
        report.agreement = agreement if self.inputs is not None else None
        if agreement.close and self.traced is not None:
            report.ambiguous = ambiguous(self, plan)
        report.unused_raw = [o.name for o in self.raw if o.name not in given]
        report.unused_base = [o.name for o in self.base if o.name not in taken]
        return report


class Side:
    """One model with the uses of its parameters as a run showed them."""

    def __init__(self, inventory: Inventory, inputs: Any) -> None:
        framework = inventory.framework
        with framework.no_grad():
            self.trace = run_model(inventory.model, inputs, train=False, level="meta")
        self.inventory = inventory
        self.reader = UseReader(framework, self.trace, inventory)
        self.flow = Flow(self.trace, self.reader)
        self.folding = Folding(inventory, inputs)

    def ordered(self, order: str, first_only: bool) -> list[Use]:
        """Uses by data flow or in the order of the calls, every one or the first of each parameter."""
        uses = self.flow.by_data(self.reader.uses) if order == "data" else self.reader.uses
        for use in uses:
            use.buffer = any(self.inventory[n].buffer for n in use.view.names)
        if not first_only:
            return list(uses)
        seen: set[tuple[str, ...]] = set()
        first = []
        for use in uses:
            if (key := (*use.view.names, str(use.part))) not in seen:
                seen.add(key)
                first.append(use)
        return first
