"""What ``assign_weight`` did, and the error that says why it could not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from optrace.weights.inventory import Inventory
from optrace.weights.plan import Plan, Row
from optrace.weights.uses import Use
from optrace.weights.verify import Agreement

WEIGHT_NORM = (
    "weight_norm keeps one magnitude for each index of its dim, and torch's linear weights are [out, in], "
    "paddle's [in, out]: build a linear layer of torch with dim=0 and of paddle with dim=1"
)


@dataclass
class WeightReport:
    """True when every raw parameter in use got its value. ``str`` gives a table.

    ``rows`` say which parameters became which; ``unused_base`` and ``unused_raw`` were left alone;
    ``verified`` is true when both models gave the same outputs afterwards, false when they did not,
    ``None`` when they could not be run. ``notes`` hold what a person should know.
    """

    rows: list[Row] = field(default_factory=list)
    unused_base: list[str] = field(default_factory=list)
    unused_raw: list[str] = field(default_factory=list)
    ambiguous: list[tuple[str, ...]] = field(default_factory=list)
    agreement: Agreement | None = None
    notes: list[str] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.notes)

    @property
    def verified(self) -> bool | None:
        return self.agreement.close if self.agreement is not None else None

    @property
    def mapping(self) -> dict[str, tuple[str, ...]]:
        """Base names by raw name."""
        return {raw: row.base for row in self.rows for raw in row.raw}

    def __str__(self) -> str:
        lines = [f"{len(self.mapping)} parameters and buffers assigned; {self._verdict()}"]
        table = [("base", "raw", "how", "by")]
        for row in self.rows:
            table.append((self._names(row.base, "b"), self._names(row.raw, "r"), row.how, row.method))
        widths = [max(len(line[i]) for line in table) for i in range(3)]
        for line in table:
            lines.append("  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths)) + "  " + line[3])
        for title, names in (("not used by base", self.unused_base), ("not used by raw", self.unused_raw)):
            if names:
                lines.append(f"{title}, left alone: {', '.join(names)}")
        for group in self.ambiguous:
            lines.append(f"may change places without effect on the outputs: {', '.join(group)}")
        lines += self.notes
        return "\n".join(lines)

    def _names(self, names: tuple[str, ...], side: str) -> str:
        return ", ".join(f"{n} {self.shapes.get(f'{side}:{n}', '')}".strip() for n in names)

    def _verdict(self) -> str:
        if self.agreement is None:
            return "not verified (no inputs given)"
        if self.agreement.close is None:
            return f"not verified: {self.agreement.note}"
        if self.agreement.close:
            return f"verified, outputs agree to {self.agreement.difference:.1e}"
        why = self.agreement.note or f"they differ by {self.agreement.difference:.1e}"
        return f"the outputs do not agree yet: {why}"


def failure(plan: Plan, base: Inventory, raw: Inventory, why: str = "", notes: Iterable[str] = ()) -> str:
    """The text of the error for a plan that is not complete: the places, ``notes``, both trees, what to try."""
    lines = [why or "The weights can't be carried over; nothing was assigned."]
    marked_base: set[str] = set()
    marked_raw: set[str] = set()
    for theirs, mine in plan.misfits:
        lines.append(f"  does not fit: base {_place(theirs, base)}  ->  raw {_place(mine, raw)}")
        marked_base.update(theirs.view.names)
        marked_raw.update(mine.view.names)
    for use in plan.spare:
        lines.append(f"  no counterpart in raw for base {_place(use, base)}")
        marked_base.update(use.view.names)
    for use in plan.missing:
        lines.append(f"  no counterpart in base for raw {_place(use, raw)}")
        marked_raw.update(use.view.names)
    for name, first, second in plan.conflicts:
        lines.append(f"  raw {raw[name]} would have to hold both {first} and {second} of base")
        marked_raw.add(name)
    lines += [f"  {note}" for note in notes]
    lines += ["", f"base: {type(base.model).__name__} ({base.framework.name})", *tree(base, marked_base)]
    lines += ["", f"raw: {type(raw.model).__name__} ({raw.framework.name})", *tree(raw, marked_raw)]
    lines += ["", *_advice(plan)]
    return "\n".join(lines)


def _place(use: Use, inventory: Inventory) -> str:
    owned = ", ".join(f"{inventory[n]} (in {inventory[n].layer or 'the model'}: {inventory[n].layer_type})"
                      for n in use.view.names)  # fmt: skip
    return f"{owned} used as {use.role.partition('/')[0]}"


def tree(inventory: Inventory, marked: set[str]) -> list[str]:
    """The module tree with its own parameters; ``(skip)`` where there are none, ``<---`` on the marked."""
    own: dict[str, list[str]] = {}
    for owned in inventory:
        own.setdefault(owned.layer, []).append(owned.name)
    lines = []
    for name, module in inventory.modules:
        depth = name.count(".") + 1 if name else 0
        names = own.get(name, [])
        text = f"{'  ' * depth}{name.rpartition('.')[2] or '(model)'}: {type(module).__name__}"
        text += "" if names else "  (skip)"
        lines.append(f"  {text}")
        for parameter in names:
            mark = "  <--- here" if parameter in marked else ""
            shape = list(inventory[parameter].shape)
            lines.append(f"  {'  ' * (depth + 1)}- {parameter.rpartition('.')[2]} {shape}{mark}")
    return lines


def _advice(plan: Plan) -> list[str]:
    lines = ["What to try:"]
    if plan.misfits:
        theirs, mine = plan.misfits[0]
        lines.append(
            f"  - make the sizes equal: {theirs.name} and {mine.name} stand in the same place but differ"
        )
        if theirs.name.endswith("weight_g") or mine.name.endswith("weight_g"):
            lines.append(f"  - {WEIGHT_NORM}")
    if plan.spare or plan.missing:
        lines.append(
            "  - check that both models have the same number of layers and the same options (bias, affine)"
        )
    if plan.method == "structure":
        lines.append("  - give inputs, so that parameters are matched by what the models do with them")
    lines += [
        "  - name pairs that can't be found: rules={'raw.parameter': 'base.parameter'} (or a list of rules)",
        "  - pair whole layers: layer_map={'base.layer': 'raw.layer'}",
        "  - write the conversion of a layer yourself: optrace.add_special_init(base_framework, base_class, "
        "raw_framework, raw_class)(fn)",
    ]
    return lines
