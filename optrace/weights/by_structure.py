"""The uses of a model's parameters as its layers' classes and names suggest them, without running it."""

from __future__ import annotations

from optrace.weights import recurrent, roles
from optrace.weights.inventory import Inventory, Owned
from optrace.weights.uses import Use, canonical
from optrace.weights.views import View

_SCALES = frozenset({"weight", "gamma", "scale", "g"})
_SHIFTS = frozenset({"bias", "beta", "shift", "offset"})
_MEANS = frozenset({"running_mean", "_mean", "moving_mean"})
_VARIANCES = frozenset({"running_var", "_variance", "moving_variance"})


def read(inventory: Inventory) -> list[Use]:
    """One use for each parameter and running statistic, in the order of definition."""
    own: dict[str, list[Owned]] = {}
    for owned in inventory:
        # What parametrizes a weight belongs to the layer that uses it.
        own.setdefault(owned.layer.partition(".parametrizations")[0], []).append(owned)
    order = {role: i for i, role in enumerate(roles.ORDER)}
    types = {name: type(module).__name__ for name, module in inventory.modules}
    found: list[Use] = []
    for number, (layer, module) in enumerate(inventory.modules):
        uses = [_use(owned, types, inventory.framework.name) for owned in own.get(layer, [])]
        kept = [u for u in uses if u is not None]
        kept.sort(
            key=lambda u: order.get(u.role.partition(":")[0], 0 if u.role.startswith("recurrent") else 50)
        )
        for use in kept:
            use.module, use.module_type, use.call = layer, type(module).__name__, number
            # Layers side by side in one parent may be parts of what the other side has fused.
            use.source, use.result = (hash(layer.rpartition(".")[0]), 0), (number, 1)
            use.place = len(found)
            found.append(use)
    return found


def _use(owned: Owned, types: dict[str, str], framework: str) -> Use | None:
    role, turned = _role(owned, types, framework)
    if role is None:
        return None
    use = canonical(View((owned.name,), owned.shape), role, (1, 0) if turned else None)
    use.buffer, use.partners = owned.buffer, (owned.name,)
    return use


def _role(owned: Owned, types: dict[str, str], framework: str) -> tuple[str | None, bool]:
    """The role, and whether the stored matrix is [out, in]."""
    local = owned.name.rpartition(".")[2]
    kind = owned.layer_type
    ndim = len(owned.shape)
    if local in _MEANS:
        return "mean", False
    if local in _VARIANCES:
        return "variance", False
    if owned.buffer:
        return None, False
    if local.startswith(("weight_ih", "weight_hh", "bias_ih", "bias_hh")):
        return f"recurrent:{recurrent.slot(owned.name)}", ndim == 2
    if ".parametrizations." in f".{owned.name}":
        outer = owned.name.partition("parametrizations.")[0].rstrip(".")
        kind, local = (
            types.get(outer, kind),
            {"original0": "weight_g", "original1": "weight_v"}.get(local, local),
        )
    if local == "weight_g":
        return "other:magnitude", False
    torch = framework == "torch"
    if local in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        return "matrix", torch
    if local in ("weight", "weight_v", "weight_orig"):
        if "Embedding" in kind:
            return "table", False
        if ndim == 2:
            return (
                ("matrix", torch)
                if "Linear" in kind
                else ("matrix", False)
                if "Conv1D" in kind
                else ("other:matrix", False)
            )
        if ndim > 2 and "Conv" in kind:
            return ("deconv" if "Transpose" in kind else "conv"), False
        if "Bilinear" in kind and ndim == 3:
            return "bilinear", False
        if "PReLU" in kind:
            return "slope", False
    if ndim <= 1 and local in _SCALES:
        return "scale", False
    if local in _SHIFTS or local == "in_proj_bias":
        return "shift", False
    return "other:parameter", False
