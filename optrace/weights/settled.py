"""Parameters that the user has settled: by rules, by registered special inits, by a layer map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optrace.errors import ConversionError, WeightError
from optrace.weights import rules as rules_
from optrace.weights import special
from optrace.weights.inventory import Inventory
from optrace.weights.match import fits, match
from optrace.weights.plan import Plan, Row, build, values
from optrace.weights.report import failure
from optrace.weights.uses import Use


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

    def add(self, base: tuple[str, ...], arrays: dict[str, np.ndarray], how: str, method: str) -> None:
        self.arrays.update(arrays)
        self.base.update(base)
        self.raw.update(arrays)
        self.rows.append(Row(base, tuple(arrays), how, method))


class Settler:
    """Works through what the user gave; ``uses`` are those of each side that a run or the structure shows."""

    def __init__(self, base: Inventory, raw: Inventory, uses: tuple[list[Use], list[Use]]) -> None:
        self.base = base
        self.raw = raw
        self._uses = uses
        self.settled = Settled()

    def settle(self, rules: Any, layer_map: Any) -> Settled:
        """Rules first, then special inits, then what the layer map pairs. Raises ``WeightError``."""
        if isinstance(rules, Mapping) and not {"from", "rule", "rules"} & set(rules):
            for raw_name, base_name in rules.items():
                self._pair(str(base_name), str(raw_name))
        elif rules is not None:
            try:
                self._rules(rules_.parse(rules))
            except ConversionError as error:
                raise WeightError(f"{error}; nothing was assigned") from error
        layers = self._layers(layer_map)
        self._special(layers)
        for base_layer, raw_layer in layers:
            self._layer(base_layer, raw_layer)
        return self.settled

    # -- rules -----------------------------------------------------------------------------------

    def _pair(self, base_name: str, raw_name: str) -> None:
        """One parameter for another; a matrix is transposed by what it means on both sides."""
        base, raw = self.base.find(base_name), self.raw.find(raw_name)
        if base is None or raw is None:
            side, name = ("base", base_name) if base is None else ("raw", raw_name)
            inventory = self.base if base is None else self.raw
            raise WeightError(
                f"the rules name {name!r}, which the {side} model does not have; nothing was assigned. "
                f"It has: {', '.join(o.name for o in inventory)}"
            )
        theirs = next((u for u in self._uses[0] if u.view.names == (base.name,)), None)
        mine = next((u for u in self._uses[1] if u.view.names == (raw.name,)), None)
        if theirs is not None and mine is not None and fits(theirs, mine):
            for name, array, _ in values(theirs, mine, self.base, self.raw):
                self.settled.add((base.name,), {name: array}, "as ruled", "rule")
            return
        array = self.base.array(base.name)
        if array.shape != raw.shape and array.shape[::-1] == raw.shape and array.ndim == 2:
            array = array.T
        if array.size != raw.tensor_size:
            raise WeightError(
                f"the rules pair base {base} with raw {raw}, whose sizes differ; nothing was assigned. "
                "To cut or join parameters give a list of rules, see optrace.weights.rules"
            )
        self.settled.add((base.name,), {raw.name: array.reshape(raw.shape)}, "as ruled", "rule")

    def _rules(self, rules: list[rules_.Rule]) -> None:
        for owned in self.base:
            for rule in rules:
                found = rule.slots(owned.name)
                if found is None:
                    continue
                position, slots = found
                if position == 0:
                    self._apply(rule, slots)
                break

    def _apply(self, rule: rules_.Rule, slots: Mapping[str, str]) -> None:
        sources, targets = rule.source_names(slots), rule.target_names(slots)
        for names, inventory, side in ((sources, self.base, "base"), (targets, self.raw, "raw")):
            for name in names:
                if inventory.find(name) is None:
                    raise WeightError(
                        f"rule {rule} needs {name!r}, which {side} does not have; nothing was assigned"
                    )
        if rule.drops:
            self.settled.base.update(sources)
            return
        results = rule.apply([self.base.array(self.base.find(n).name) for n in sources])  # type: ignore[union-attr]
        arrays = {}
        for name, array in zip(targets, results):
            owned = self.raw.find(name)
            assert owned is not None
            if array.shape != owned.shape:
                raise WeightError(
                    f"rule {rule} makes {name} {list(array.shape)}, but raw has {owned}; nothing was assigned"
                )
            arrays[owned.name] = array
        self.settled.add(tuple(sources), arrays, "as ruled", "rule")

    # -- layers ----------------------------------------------------------------------------------

    def _layers(self, layer_map: Any) -> list[tuple[str, str]]:
        """Pairs of layer names (base, raw) from a mapping or pairs of objects or names."""
        pairs = getattr(layer_map, "map", layer_map)
        if pairs is None:
            return []
        items = list(pairs.items()) if isinstance(pairs, Mapping) else [tuple(p) for p in pairs]
        found = []
        for first, second in items:
            base, raw = _path(self.base, first), _path(self.raw, second)
            if base is None or raw is None:  # given the other way round
                base, raw = _path(self.base, second), _path(self.raw, first)
            if base is None or raw is None:
                raise WeightError(
                    f"the layer map pairs {first!r} and {second!r}, which are not layers of the two models"
                )
            found.append((base, raw))
        return found

    def _special(self, layers: list[tuple[str, str]]) -> None:
        """Run registered conversions: on mapped layers, then on the others of their classes in order."""
        names = (self.base.framework.name, self.raw.framework.name)
        base_modules, raw_modules = dict(self.base.modules), dict(self.raw.modules)
        for base, raw in layers:
            fn = special.find(base_modules[base], raw_modules[raw], names)
            if fn is not None:
                self._convert(fn, base, raw)
        for (base_class, raw_class), fn in special.registered(*names).items():
            theirs = [
                n
                for n, m in self.base.modules
                if type(m).__name__ == base_class and not self._done(n, self.base)
            ]
            mine = [
                n
                for n, m in self.raw.modules
                if type(m).__name__ == raw_class and not self._done(n, self.raw)
            ]
            if theirs and mine and len(theirs) != len(mine):
                raise WeightError(
                    f"a special init is registered for {base_class} and {raw_class}, but base has "
                    f"{len(theirs)} of them ({', '.join(theirs)}) and raw {len(mine)} ({', '.join(mine)}); "
                    "pair them with layer_map. Nothing was assigned"
                )
            for base, raw in zip(theirs, mine):
                self._convert(fn, base, raw)

    def _done(self, layer: str, inventory: Inventory) -> bool:
        done = self.settled.base if inventory is self.base else self.settled.raw
        names = _below(inventory, layer)
        return not names or done.issuperset(names)

    def _convert(self, fn: Callable[[Any, Any], Any], base: str, raw: str) -> None:
        """Run a user's conversion and take over what the raw layer holds afterwards."""
        base_layer, raw_layer = dict(self.base.modules)[base], dict(self.raw.modules)[raw]
        try:
            with self.raw.framework.no_grad(), self.base.framework.no_grad():
                fn(base_layer, raw_layer)
        except Exception as error:
            raise WeightError(
                f"the special init for {base} ({type(base_layer).__name__}) and {raw} "
                f"({type(raw_layer).__name__}) raised {type(error).__name__}: {error}; nothing was assigned"
            ) from error
        arrays = {name: self.raw.array(name) for name in _below(self.raw, raw)}
        self.settled.add(tuple(_below(self.base, base)), arrays, "converted", "special init")

    def _layer(self, base: str, raw: str) -> None:
        """Match the uses inside two mapped layers."""
        if self._done(raw, self.raw):
            return
        theirs = [
            u for u in self._uses[0] if set(u.view.names) <= set(_below(self.base, base)) - self.settled.base
        ]
        mine = [
            u for u in self._uses[1] if set(u.view.names) <= set(_below(self.raw, raw)) - self.settled.raw
        ]
        plan: Plan = build(match(theirs, mine), self.base, self.raw, "layer map")
        if not plan.complete:
            why = f"The layers {base!r} and {raw!r}, paired by the layer map, do not fit; nothing assigned."
            raise WeightError(failure(plan, self.base, self.raw, why))
        for row in plan.rows:
            self.settled.add(row.base, {n: plan.arrays[n] for n in row.raw}, row.how, "layer map")


def _path(inventory: Inventory, layer: Any) -> str | None:
    """The name of a layer given as an object or by name."""
    if isinstance(layer, str):
        return layer if any(n == layer for n, _ in inventory.modules) else None
    return next((n for n, m in inventory.modules if m is layer), None)


def _below(inventory: Inventory, layer: str) -> list[str]:
    return [o.name for o in inventory if not layer or o.name.startswith(f"{layer}.")]
