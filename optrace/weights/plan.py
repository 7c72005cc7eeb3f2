"""From paired uses to the arrays that the raw model's parameters are to hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from optrace.weights.inventory import Inventory, Owned
from optrace.weights.match import Matching, likeness
from optrace.weights.roles import STATISTICS
from optrace.weights.uses import Use
from optrace.weights.views import View


@dataclass
class Row:
    """One line of a report: which parameters became which, and how."""

    base: tuple[str, ...]
    raw: tuple[str, ...]
    how: str
    method: str


@dataclass
class Plan:
    """Arrays by raw name, with what is left over.

    ``missing`` are raw parameters in use that nothing fits, ``spare`` base parameters in use that
    nothing takes, ``conflicts`` raw parameters that two different base arrays claim. ``kept`` are raw
    scales of ones and shifts of zeros where base has none: they do nothing and stay. ``left`` are those
    of base where raw has none.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    misfits: list[tuple[Use, Use]] = field(default_factory=list)
    missing: list[Use] = field(default_factory=list)
    spare: list[Use] = field(default_factory=list)
    conflicts: list[tuple[str, str, str]] = field(default_factory=list)
    matching: Matching = field(default_factory=Matching)
    method: str = "use"
    kept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return bool(self.arrays or self.kept or self.left) and not (
            self.misfits or self.missing or self.spare or self.conflicts
        )

    @property
    def faults(self) -> int:
        """How far from complete."""
        return len(self.misfits) * 2 + len(self.missing) + len(self.spare) + len(self.conflicts)

    def indices(self, row: Row, base: Inventory, raw: Inventory) -> list[np.ndarray]:
        """For each raw parameter of ``row``: which of base's elements, numbered through, it holds (int64)."""
        found = next(
            p for p in self.matching.pairs if (p[0].view.names, p[1].view.names) == (row.base, row.raw)
        )
        arrays = {name: array for name, array, _ in values(*found, _Numbered(base, row.base), raw)}
        return [arrays[name] for name in row.raw]


class _Numbered:
    """An inventory whose parameters hold their elements' numbers instead of their values."""

    def __init__(self, inventory: Inventory, names: tuple[str, ...]) -> None:
        self._inventory = inventory
        self._starts: dict[str, int] = {}
        start = 0
        for name in names:
            self._starts[name] = start
            start += inventory[name].tensor_size

    def __getitem__(self, name: str) -> Owned:
        return self._inventory[name]

    def array(self, name: str) -> np.ndarray:
        owned, start = self[name], self._starts[name]
        return np.arange(start, start + owned.tensor_size, dtype=np.int64).reshape(owned.shape)


def build(
    matching: Matching, base: Inventory, raw: Inventory, method: str, fixed: frozenset[str] = frozenset()
) -> Plan:
    """Turn a matching into arrays; raw names in ``fixed`` are settled already and left out."""
    plan = Plan(method=method, misfits=list(matching.misfits), matching=matching)
    sources: dict[str, tuple[str, ...]] = {}
    partial: dict[str, np.ndarray] = {}
    used_base: set[str] = set()
    for theirs, mine in matching.pairs:
        used_base.update(theirs.view.names)
        if set(mine.view.names) <= fixed or not _carried(theirs, mine, base, raw):
            continue
        new = False
        for name, array, covered in values(theirs, mine, base, raw):
            if name not in plan.arrays:
                plan.arrays[name], partial[name] = array, covered
                sources[name] = theirs.view.names
                new = True
            else:
                _merge(plan, name, array, covered, partial, (sources[name], theirs.view.names))
        if new:
            plan.rows.append(Row(theirs.view.names, mine.view.names, _how(theirs, mine), method))
    _give_to_unused(plan, base, raw, fixed)
    _buffers_by_name(plan, base, raw, fixed)
    settled = set(plan.arrays) | fixed
    plan.missing = _first(
        u for u in matching.raw_only if _matters(u, raw) and not settled.issuperset(u.view.names)
    )
    plan.spare = _first(
        u for u in matching.base_only if _matters(u, base) and not used_base.issuperset(u.view.names)
    )
    known_misfits = {u.name for pair in plan.misfits for u in pair}
    plan.misfits = [p for p in plan.misfits if not (p[1].name in settled and p[0].name in used_base)]
    plan.missing = [u for u in plan.missing if u.name not in known_misfits]
    plan.spare = [u for u in plan.spare if u.name not in known_misfits]
    if not plan.misfits and not (plan.spare and plan.missing):
        plan.kept, plan.missing = _without_effect(plan.missing, raw)
        plan.left, plan.spare = _without_effect(plan.spare, base)
    return plan


def _without_effect(uses: list[Use], inventory: Inventory) -> tuple[list[str], list[Use]]:
    """Names of the uses that do nothing as they stand, and the other uses."""
    neutral = [u.name for u in uses if _neutral(u, inventory)]
    return neutral, [u for u in uses if u.name not in neutral]


def _neutral(use: Use, inventory: Inventory) -> bool:
    """Whether a parameter does nothing as it stands: a norm's scale of ones, a shift of zeros."""
    neutral = {"scale": 1.0, "shift": 0.0}.get(use.role)
    return neutral is not None and use.plain and bool((inventory.array(use.name) == neutral).all())


def _give_to_unused(plan: Plan, base: Inventory, raw: Inventory, fixed: frozenset[str]) -> None:
    """Where a raw parameter stands in for a second one that is not used at all, that one takes the values.

    Such a port has a mistake that a comparison is to find; it needs the weights where they belong.
    """
    matching = plan.matching
    used = {n for _, mine in matching.pairs for n in mine.view.names}
    used |= {n for mine in matching.raw_only for n in mine.view.names} | fixed
    free = [o for o in raw if not o.buffer and o.name not in used]
    for conflict in list(plan.conflicts):
        name = conflict[2]
        fitting = [o for o in free if name in base and o.shape == raw[conflict[0]].shape]
        if not fitting:
            continue
        chosen = max(fitting, key=lambda o: (_numbers(o.name) == _numbers(name), likeness(name, o.name)))
        theirs, mine = next(
            (b, r) for b, r in matching.pairs if b.view.names == (name,) and r.view.names == conflict[:1]
        )
        stand_in = replace(mine, name=chosen.name, view=View((chosen.name,), chosen.shape))
        if not mine.plain:
            continue
        free.remove(chosen)
        plan.conflicts.remove(conflict)
        plan.arrays.update({n: array for n, array, _ in values(theirs, stand_in, base, raw)})
        plan.rows.append(Row((name,), (chosen.name,), _how(theirs, stand_in), "unused"))


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _buffers_by_name(plan: Plan, base: Inventory, raw: Inventory, fixed: frozenset[str]) -> None:
    """Stored buffers of one name and shape belong together (index tables), whatever they are used for."""
    for mine in raw:
        if not mine.buffer or mine.name in plan.arrays or mine.name in fixed or mine.name not in base:
            continue
        theirs = base[mine.name]
        stored = mine.name in base.persistent and mine.name in raw.persistent
        if stored and theirs.buffer and theirs.shape == mine.shape and theirs.dtype == mine.dtype:
            plan.arrays[mine.name] = base.array(mine.name)
            plan.rows.append(Row((mine.name,), (mine.name,), "copied", "name"))


def _first(uses: object) -> list[Use]:
    found: dict[str, Use] = {}
    for use in uses:  # type: ignore[attr-defined]
        found.setdefault(use.name, use)
    return list(found.values())


def _matters(use: Use, inventory: Inventory) -> bool:
    """Whether a use without counterpart is a fault: constants kept in buffers are not."""
    return not use.buffer or use.role in STATISTICS


def _carried(theirs: Use, mine: Use, base: Inventory, raw: Inventory) -> bool:
    """Whether the values go over: parameters and statistics do, constants the code makes itself don't."""
    if not theirs.buffer and not mine.buffer:
        return True
    if mine.role in STATISTICS or theirs.role in STATISTICS:
        return True
    floating = "float" in base[theirs.name].dtype and "float" in raw[mine.name].dtype
    return floating and theirs.name in base.persistent and mine.name in raw.persistent


def values(
    theirs: Use, mine: Use, base: Inventory | _Numbered, raw: Inventory
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(raw name, array, elements covered) for each raw parameter of the use; dtype as in the base model."""
    if {theirs.role, mine.role} == {"conv", "matrix"}:
        theirs, mine = _as_matrix(theirs), _as_matrix(mine)
    if theirs.plain and mine.plain and theirs.size == mine.size:
        array = base.array(theirs.name).transpose(theirs.perm).reshape(theirs.shape)
        shape = raw[mine.name].shape
        turned = tuple(shape[a] for a in mine.perm)
        back = tuple(int(a) for a in np.argsort(mine.perm))
        array = np.ascontiguousarray(array.reshape(turned).transpose(back))
        return [(mine.name, array, np.ones(1, bool))]
    whole = _whole(theirs, mine, base, raw)
    if whole is not None:
        return [(mine.name, whole, np.ones(1, bool))]
    return _scattered(theirs, mine, base, raw)


def _as_matrix(use: Use) -> Use:
    """A convolution whose patches do not overlap, seen as a matrix [in * kernel, out]."""
    if use.role != "conv":
        return use
    axes = (*range(1, len(use.shape)), 0)
    return replace(use, perm=axes, shape=(use.size // use.shape[0], use.shape[0]))


def _indices(use: Use, inventory: Inventory | _Numbered) -> tuple[np.ndarray, dict[str, int], int]:
    sizes = {n: inventory[n].shape for n in use.view.names}
    starts, total = {}, 0
    for name, shape in sizes.items():
        starts[name] = total
        total += int(np.prod(shape, dtype=np.int64))
    index = use.view.index(starts, sizes).transpose(use.perm)
    return index.reshape(-1), starts, total


def _whole(theirs: Use, mine: Use, base: Inventory | _Numbered, raw: Inventory) -> np.ndarray | None:
    """The base parameter as it is, where both sides use the same part of parameters of one size."""
    if len(theirs.view.names) != 1 or len(mine.view.names) != 1:
        return None
    a, b = base[theirs.name].shape, raw[mine.name].shape
    if tuple(d for d in a if d != 1) != tuple(d for d in b if d != 1):
        return None
    left, right = _indices(theirs, base)[0], _indices(mine, raw)[0]
    if left.shape == right.shape and not np.array_equal(left, right):
        return None
    return base.array(theirs.name).reshape(b)


def _scattered(
    theirs: Use, mine: Use, base: Inventory | _Numbered, raw: Inventory
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    flat = np.concatenate([base.array(n).reshape(-1) for n in theirs.view.names])
    values = flat[_indices(theirs, base)[0]]
    index, starts, total = _indices(mine, raw)
    held = np.zeros(total, flat.dtype)
    covered = np.zeros(total, bool)
    held[index], covered[index] = values, True
    found = []
    for name, start in starts.items():
        shape = raw[name].shape
        end = start + int(np.prod(shape, dtype=np.int64))
        part, mask = held[start:end].reshape(shape), covered[start:end].reshape(shape)
        if not mask.all():
            part = np.where(mask, part, raw.array(name).astype(flat.dtype))
        found.append((name, part, mask))
    return found


def _merge(
    plan: Plan,
    name: str,
    array: np.ndarray,
    covered: np.ndarray,
    partial: dict[str, np.ndarray],
    origins: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    """A second use of a raw parameter: it fills what is open and must agree on the rest."""
    before = np.broadcast_to(partial[name], array.shape)
    now = np.broadcast_to(covered, array.shape)
    both = before & now
    if not np.array_equal(plan.arrays[name][both], array[both]):
        plan.conflicts.append((name, ", ".join(origins[0]), ", ".join(origins[1])))
        return
    plan.arrays[name] = np.where(now & ~before, array, plan.arrays[name])
    partial[name] = before | now


def _how(theirs: Use, mine: Use) -> str:
    if len(theirs.view.names) > 1 and len(mine.view.names) > 1:
        return "regrouped"
    if len(mine.view.names) > 1:
        return f"split in {len(mine.view.names)}"
    if len(theirs.view.names) > 1:
        return f"joined from {len(theirs.view.names)}"
    if not (theirs.plain and mine.plain):
        return "rearranged"
    if theirs.perm != mine.perm and len(theirs.squeezed) > 1:
        return "transposed"
    return "copied"
