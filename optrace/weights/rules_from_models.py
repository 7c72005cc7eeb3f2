"""Rules written by the tool: how the weights of one model become those of another."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from optrace.errors import ConversionError
from optrace.weights.assign import Assignment
from optrace.weights.inventory import Inventory
from optrace.weights.plan import Plan, Row
from optrace.weights.rules import Rule

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def rules_from_models(base_model: Any, raw_model: Any, inputs: Any = None) -> list[Rule]:
    """Rules for a checkpoint of ``base_model``, found as ``assign_weight`` finds them; no model is changed.

    Every name of base's state dict has a rule; what the raw model does not use is dropped by one.
    Raises ``WeightError`` when the models do not correspond, ``ConversionError`` when a parameter's
    elements are rearranged in a way that no rule can say.
    """
    assignment = Assignment(base_model, raw_model, inputs, None, None)
    before = {o.name: assignment.raw.array(o.name) for o in assignment.raw}
    try:
        plan = assignment.solve()[0]
        rules = [_rule(row, plan, assignment.base, assignment.raw) for row in plan.rows]
    finally:
        assignment.write(before)
    return _shared(rules + _rest(rules, assignment.base, assignment.raw))


def _rule(row: Row, plan: Plan, base: Inventory, raw: Inventory) -> Rule:
    """The simplest rule that makes the plan's arrays, tried on index arrays."""
    numbers, start = [], 0
    for name in row.base:
        size = base[name].tensor_size
        numbers.append(np.arange(start, start + size, dtype=np.int64).reshape(base[name].shape))
        start += size
    wanted = plan.indices(row, base, raw)
    for rule in _candidates(row, raw):
        try:
            made = rule.apply(numbers)
        except ConversionError:
            continue
        if all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(made, wanted)):
            return rule
    raise ConversionError(
        f"{', '.join(row.base)} becomes {', '.join(row.raw)} by a rearrangement that rules can't express; "
        "use assign_weight and save the raw model instead"
    )


def _candidates(row: Row, raw: Inventory) -> list[Rule]:
    shapes = [raw[n].shape for n in row.raw]
    found = []
    for transpose in (False, True):
        for axis in (0, 1):
            plain = Rule(row.base, row.raw, transpose, axis)
            sizes = tuple(
                s[axis if len(s) < 2 or not transpose else 1 - axis] if len(s) > axis else s[-1]
                for s in shapes
                if s
            )
            found += [plain, Rule(row.base, row.raw, transpose, axis, sizes)] if len(row.raw) > 1 else [plain]
            if len(row.raw) == 1:
                found.append(Rule(row.base, row.raw, transpose, axis, None, shapes[0]))
    if len(row.base) == len(row.raw) == 1:
        for axes in ((2, 3, 1, 0), (3, 2, 0, 1), (1, 2, 0), (2, 0, 1), (1, 0, 2, 3), (2, 1, 0)):
            found.append(Rule(row.base, row.raw, axes))
    return found


def _rest(rules: list[Rule], base: Inventory, raw: Inventory) -> list[Rule]:
    """Rules for further names of shared parameters, and for what the raw model has no use of."""
    found = []
    known = {n for rule in rules for n in rule.sources}
    for rule in rules:
        if len(rule.sources) == len(rule.targets) == 1:
            theirs, mine = base[rule.sources[0]].others, raw[rule.targets[0]].others
            for name, target in zip(theirs, mine):
                found.append(Rule((name,), (target,), rule.transpose, rule.axis, rule.sizes, rule.shape))
                known.add(name)
    names = [n for o in base for n in (o.name, *o.others)] + sorted(base.persistent)
    found += [Rule((n,), ()) for n in dict.fromkeys(names) if n not in known and n in base.persistent]
    return found


def _shared(rules: list[Rule]) -> list[Rule]:
    """Rules that differ only in layer numbers, as one with slots for the numbers."""
    found: dict[Rule, None] = {}
    for rule in rules:
        found.setdefault(_with_slots(rule))
    return list(found)


def _with_slots(rule: Rule) -> Rule:
    numbers = _NUMBER.findall(rule.sources[0])
    names = (*rule.sources, *rule.targets)
    if not numbers or any(_NUMBER.findall(n) != numbers for n in names):
        return rule
    letters = iter("ijklmnopq"[: len(numbers)])
    slots = [f"{{{letter}}}" for letter in letters]
    if len(slots) < len(numbers):
        return rule

    def slotted(name: str) -> str:
        left = iter(slots)
        return _NUMBER.sub(lambda _: next(left), name)

    sources, targets = (tuple(slotted(n) for n in names) for names in (rule.sources, rule.targets))
    return replace(rule, sources=sources, targets=targets)
