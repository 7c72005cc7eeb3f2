"""The weights of fused recurrent calls: which slot each fills, and attributes that the call does not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from optrace.trace.records import Call, tensors_in
from optrace.weights.inventory import Inventory

_LOCAL = re.compile(r"(weight|bias)_(ih|hh|hr|ho)(_l\d+)?(_reverse)?")
# Paddle's fused layers hold each weight a second time, in a cell: "0.cell_bw.weight_hh" is "weight_hh_l0_reverse".
_CELL = re.compile(r"(?:^|\.)(\d+)\.cell(_fw|_bw)?\.")
_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def slot(name: str, fused: bool = False) -> str:
    """The part that a weight of that name plays: ``"weight_hh_l0_reverse"``; its last word where it has none.

    ``fused``: a call that runs all layers and directions got it.
    """
    found = list(_LOCAL.finditer(name))
    if not found:
        return name.rpartition(".")[2]
    kind, which, layer, reverse = found[-1].groups(default="")
    cell = _CELL.search(name)
    if fused and cell is not None and not layer:
        layer, reverse = f"_l{cell[1]}", "_reverse" if cell[2] == "_bw" else ""
    return f"{kind}_{which}{layer}{reverse}"


def alike(base: str, raw: str) -> float:
    """How well two slots go together, 0 to 1: a cell of its own may stand for any layer and direction."""
    if base == raw:
        return 1.0
    one_layer = "_l" not in base or "_l" not in raw
    return 0.6 if one_layer and base.split("_")[:2] == raw.split("_")[:2] else 0.0


def order(slot: str) -> tuple[int, int, int]:
    """Sorts slots by layer, direction and kind."""
    digits = "".join(c for c in slot.partition("_l")[2] if c.isdigit())
    kind = next((i for i, k in enumerate(_KINDS) if slot.startswith(k)), len(_KINDS))
    return int(digits or 0), int(slot.endswith("reverse")), kind


def unread(call: Call, op: str, inventory: Inventory, filled: dict[str, str]) -> Iterator[str]:
    """A sentence for each weight of the call's layer that is not what the call got for it, or no parameter.

    ``filled``: names of parameters by slot, as the call got them. A layer whose weight was exchanged behind
    its attribute may go on with the old one, because it keeps a list of its weights.
    """
    used = {name for own in filled.values() for name in (own, *inventory[own].others)}
    places = {(r.storage, r.offset, r.shape) for r in tensors_in([call.positional, call.keyword])}
    layer = call.module or ""
    for name, tensor in _held(inventory, layer):
        full = f"{layer}.{name}" if layer else name
        instead = filled.get(slot(name, True))
        if full in used or (instead is not None and full not in inventory):
            continue  # computed from the parameters that fill the slot
        info = inventory.framework.info(tensor)
        if instead is not None:
            yield f"weight used by {op} is not {full}, which has no effect, but {instead}"
        elif full in inventory:
            yield f"weight used by {op} is not {full}, which has no effect, but a tensor that is no parameter"
        elif (info.storage, info.offset, info.shape) in places:
            yield f"weight used by {op} is no parameter: {full} is a plain tensor, which no state dict holds"
        else:
            yield f"weight used by {op} is not {full}, and neither is a parameter"


def _held(inventory: Inventory, layer: str) -> Iterator[tuple[str, Any]]:
    """The tensors that the layer's attributes of recurrent names hold."""
    module = next((m for name, m in inventory.modules if name == layer), None)
    for held in (module._parameters, module._buffers, vars(module)) if module is not None else ():
        for name, value in held.items():
            if _LOCAL.fullmatch(name) and inventory.framework.is_tensor(value):
                yield name, value
