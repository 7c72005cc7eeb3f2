"""What a person should know of weights that were carried over."""

from __future__ import annotations

from collections.abc import Iterator

from optrace.weights.inventory import Inventory
from optrace.weights.plan import Plan

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
    for row in plan.rows:
        if len(row.base) == len(row.raw) == 1:
            theirs, mine = base[row.base[0]], raw[row.raw[0]]
            if theirs.buffer != mine.buffer:
                kinds = ["parameter", "buffer"]
                yield (
                    f"{theirs.name} is a {kinds[theirs.buffer]} of base, {mine.name} a {kinds[mine.buffer]} of raw: "
                    f"only the {'raw' if theirs.buffer else 'base'} side would be trained"
                )
            for side, owned in (("base", theirs), ("raw", mine)):
                if owned.others:
                    yield f"one tensor of {side} under several names (tied): {', '.join((owned.name, *owned.others))}"


def _bare(raw: Inventory, name: str) -> bool:
    """Whether a matrix belongs to a module of the user's own, which does not say what it is for."""
    owned = raw[name]
    module = dict(raw.modules).get(owned.layer)
    return not type(module).__module__.startswith(("torch.", "paddle."))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
