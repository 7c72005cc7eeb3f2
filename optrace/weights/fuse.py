"""One fused linear on one side against several on the other: join the several into one use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from optrace.weights.uses import Use, canonical
from optrace.weights.views import View

Groups = Callable[[Use, list[int]], "list[np.ndarray] | None"]
Partition = Callable[[Use], "list[np.ndarray] | None"]
_Shape = tuple[str, tuple[int, ...]]


def join_siblings(
    mine: list[Use], theirs: list[Use], cut: Groups | None, last: bool = False
) -> tuple[list[Use], list[Use]]:
    """``mine`` with matrices on one input joined where ``theirs`` has one matrix of their total width.

    ``cut`` tells which columns of a fused use go together; ``theirs`` comes back with the columns of
    those uses in the order of the joined parts. Biases are joined along with their matrices. ``last``
    prefers later parts where several would do (q, and k with v; not q with k, and v).
    """
    wanted = Counter(_kind(u) for u in theirs)
    wanted.subtract(Counter(_kind(u) for u in mine))
    if not any(n > 0 for (role, _), n in wanted.items() if role == "matrix"):
        return mine, theirs
    mine = list(mine)
    for run in _runs(mine):
        free = set(range(len(run)))
        windows = [(s, e) for s in range(len(run)) for e in range(s + 2, len(run) + 1)]
        windows.sort(key=lambda w: (w[0] - w[1], -w[0] if last else w[0]))
        for start, end in windows:
            parts = run[start:end]
            kind = ("matrix", (parts[0].shape[0], sum(p.shape[1] for p in parts)))
            if wanted[kind] > 0 and free.issuperset(range(start, end)):
                wanted[kind] -= 1
                free.difference_update(range(start, end))
                _join(mine, parts)
    return mine, _reorder(mine, theirs, cut) if cut is not None else theirs


def _kind(use: Use) -> _Shape:
    return use.role, use.shape


def _runs(uses: list[Use]) -> list[list[Use]]:
    """Two-dimensional matrices that share their input, each set in the order of use."""
    found: dict[object, list[Use]] = {}
    for use in uses:
        if use.role == "matrix" and len(use.shape) == 2 and use.source is not None:
            found.setdefault((use.source, use.shape[0]), []).append(use)
    return [run for run in found.values() if len(run) > 1]


def _bias(uses: list[Use], matrix: Use) -> Use | None:
    return next(
        (
            u
            for u in uses
            if u.role == "shift" and (u.call == matrix.call or u.source == matrix.result is not None)
        ),
        None,
    )


def _join(uses: list[Use], parts: list[Use]) -> None:
    biases = [_bias(uses, p) for p in parts]
    joined = [_joined(parts)]
    gone = list(parts)
    if all(b is not None for b in biases):
        whole = [b for b in biases if b is not None]
        joined.append(_joined(whole))
        gone += whole
    at = min(i for i, u in enumerate(uses) if any(u is g for g in gone))
    rest_before = [u for u in uses[:at] if not any(u is g for g in gone)]
    rest_after = [u for u in uses[at:] if not any(u is g for g in gone)]
    uses[:] = rest_before + joined + rest_after


def _joined(parts: list[Use]) -> Use:
    """One use of the parts' columns side by side."""
    perms = [p.perm for p in parts]
    shapes = [p.shape for p in parts]
    shape = (*shapes[0][:-1], sum(s[-1] for s in shapes))

    def side_by_side(indices: list[np.ndarray]) -> np.ndarray:
        turned = [i.transpose(p).reshape(s) for i, p, s in zip(indices, perms, shapes)]
        return np.concatenate(turned, axis=-1)

    names = tuple(dict.fromkeys(n for p in parts for n in p.view.names))
    view = View(names, shape, tuple(p.view for p in parts), side_by_side)
    use = canonical(view, parts[0].role)
    first = parts[0]
    use.place, use.source, use.result, use.call = first.place, first.source, first.result, first.call
    use.module, use.module_type, use.partners = first.module, first.module_type, names
    use.widths = tuple(s[-1] for s in shapes)
    return use


def _reorder(mine: list[Use], theirs: list[Use], cut: Groups) -> list[Use]:
    """Fused uses with their columns in the order in which the data flow takes them apart."""
    joined = {_kind(u): list(u.widths) for u in mine if len(u.widths) > 1 and u.role == "matrix"}
    result: list[Use] = []
    orders: dict[int, np.ndarray] = {}
    for use in theirs:
        widths = joined.get(_kind(use))
        if use.role == "matrix" and widths:
            groups = cut(use, widths)
            if groups is not None:
                orders[use.call] = np.concatenate(groups)
        order = orders.get(use.call)
        plain = order is None or bool((order == np.arange(len(order))).all()) or use.shape[-1] != len(order)
        result.append(use if plain or order is None else in_order(use, order))
    return result


def same_order(
    pairs: list[tuple[Use, Use]], cut_base: Partition, cut_raw: Partition
) -> list[tuple[Use, Use]]:
    """Fused matrices that the two sides take apart in different ways, with their columns in one order."""
    orders: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    for base, raw in pairs:
        if base.role == raw.role == "matrix" and len(base.shape) == 2 and not base.widths and not raw.widths:
            left, right = cut_base(base), cut_raw(raw)
            if left and right and [len(g) for g in left] == [len(g) for g in right]:
                orders[base.call, raw.call] = np.concatenate(left), np.concatenate(right)
    result = []
    for base, raw in pairs:
        found = orders.get((base.call, raw.call))
        if found is not None and base.shape[-1] == raw.shape[-1] == len(found[0]):
            base, raw = in_order(base, found[0]), in_order(raw, found[1])
        result.append((base, raw))
    return result


def in_order(use: Use, order: np.ndarray) -> Use:
    """``use`` with its columns taken in ``order``."""
    perm, shape = use.perm, use.shape

    def columns(indices: list[np.ndarray]) -> np.ndarray:
        return indices[0].transpose(perm).reshape(shape)[..., order]

    made = canonical(View(use.view.names, shape, (use.view,), columns), use.role)
    made.place, made.source, made.result, made.call = use.place, use.source, use.result, use.call
    made.module, made.module_type, made.partners = use.module, use.module_type, use.partners
    return made
