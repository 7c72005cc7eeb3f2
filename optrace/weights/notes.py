"""What a person should know of weights that were carried over."""

from __future__ import annotations

from collections.abc import Iterator

from optrace.weights.inventory import Inventory, Owned
from optrace.weights.plan import Plan, Row
from optrace.weights.report import WEIGHT_NORM

_SHOWN = 4


def notes(plan: Plan, base: Inventory, raw: Inventory, ran: bool) -> Iterator[str]:
    """One sentence for each matter; ``ran``: whether the models were run, so that uses were seen."""
    square = [
        row
        for row in plan.rows
        if len(row.raw) == 1 and len(shape := raw[row.raw[0]].shape) == 2 and shape[0] == shape[1] > 1
    ]
    known = [row.raw[0] for row in square if ran or not _bare(raw, row.raw[0])]
    if known:
        by = "what the calls do with them" if ran else "the kinds of their layers"
        yield (
            f"square, so that shapes can't tell whether to transpose; {by} does: "
            f"{_some([f'{n} ({row.how})' for n, row in zip(known, square)])}"
        )
    guessed = [row.raw[0] for row in square if not ran and _bare(raw, row.raw[0])]
    if guessed:
        yield (
            f"square and held by no layer that says how it is used, copied as stored: {_some(guessed)}; "
            "give inputs to have the use looked at"
        )
    for name in plan.kept:
        yield f"base has nothing like raw {raw[name]}, which keeps its neutral values (and would be trained)"
    for name in plan.left:
        yield f"raw has nothing like base {base[name]}, whose neutral values do nothing (but would be trained)"
    for row in plan.rows:
        if len(row.base) == len(row.raw) == 1:
            yield from _magnitudes(base, raw, row)
            theirs, mine = base[row.base[0]], raw[row.raw[0]]
            if theirs.buffer != mine.buffer:
                kinds = ["parameter", "buffer"]
                yield (
                    f"{theirs.name} is a {kinds[theirs.buffer]} of base, {mine.name} a {kinds[mine.buffer]} of raw: "
                    f"only the {'raw' if theirs.buffer else 'base'} side would be trained"
                )
            for side, owned, inventory in (("base", theirs, base), ("raw", mine, raw)):
                if owned.others and not _by_framework(owned, inventory):
                    yield f"one tensor of {side} under several names (tied): {', '.join((owned.name, *owned.others))}"


def _magnitudes(base: Inventory, raw: Inventory, row: Row) -> Iterator[str]:
    """What to say of a weight norm over other axes on the other side."""
    magnitudes = [side.behind(names[0])[1:] for side, names in ((base, row.base), (raw, row.raw))]
    if all(magnitudes):
        theirs, mine = base[magnitudes[0][0]], raw[magnitudes[1][0]]
        yield (
            f"weight_norm of base has {theirs.tensor_size} magnitudes ({theirs}), of raw {mine.tensor_size} ({mine}): "
            f"only the weight that results was carried over, and training will differ; {WEIGHT_NORM}"
        )


def _bare(raw: Inventory, name: str) -> bool:
    """Whether a matrix belongs to a module of the user's own, which does not say what it is for."""
    return not _framework_made(raw, raw[name].layer)


def _framework_made(inventory: Inventory, layer: str) -> bool:
    module = dict(inventory.modules).get(layer)
    return type(module).__module__.startswith(("torch.", "paddle."))


def _by_framework(owned: Owned, inventory: Inventory) -> bool:
    """Whether a layer of the framework's own has the further names, as paddle's recurrent layers do."""
    start = f"{owned.layer}." if owned.layer else ""
    return _framework_made(inventory, owned.layer) and all(n.startswith(start) for n in owned.others)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
