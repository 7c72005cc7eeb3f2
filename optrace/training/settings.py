"""How two optimizers are set, in shared terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

# What a setting is where an optimizer does not have it.
NEUTRAL: dict[str, Any] = {
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "amsgrad": False,
    "weight_decay": 0.0,
    "centered": False,
    "maximize": False,
    "lr_decay": 0.0,
    "clip": None,
}
# In the order in which a person would look.
ORDER = (
    "rule", "decoupled", "lr", "weight_decay", "momentum", "dampening", "nesterov", "beta1", "beta2", "epsilon",
    "amsgrad", "rho", "centered", "maximize", "lr_decay",
)  # fmt: skip
# Optimizers that, with equal settings, do not do the same in the two frameworks: the setting and how.
UNLIKE = {
    "adamax": (
        "epsilon",
        "torch adds epsilon to the gradient's size inside the maximum, paddle to the maximum",
    ),
    "rmsprop": ("epsilon", "torch adds epsilon to the root, paddle under it"),
    "adagrad": ("epsilon", "the frameworks start the sum of squares and place epsilon differently"),
    "sgd": ("dampening", "paddle's Momentum has no dampening"),
}


class SettingDifference(NamedTuple):
    """One setting that differs; ``argument`` is its name on the raw side (base's where raw has none)."""

    name: str
    argument: str
    base: Any
    raw: Any

    def __str__(self) -> str:
        return f"{self.argument} is {_shown(self.raw)}, base has {_shown(self.base)}"


def setting_differences(
    base: Mapping[str, Any],
    raw: Mapping[str, Any],
    base_names: Mapping[str, str],
    raw_names: Mapping[str, str],
) -> list[SettingDifference]:
    """Settings that do not mean the same, the likeliest cause first. Empty when one side's are unknown."""
    if not base or not raw:
        return []
    found = []
    for name in ORDER:
        a, b = base.get(name, NEUTRAL.get(name)), raw.get(name, NEUTRAL.get(name))
        if name == "rule":
            a, b = _family(a), _family(b)
        if name == "decoupled" and not (base.get("weight_decay") or raw.get("weight_decay")):
            continue
        if (a is None or b is None) and name not in NEUTRAL:
            continue
        if not _same(a, b):
            argument = (
                "weight_decay" if name == "decoupled" else raw_names.get(name) or base_names.get(name) or name
            )
            found.append(SettingDifference(name, argument, a, b))
    return found


def _family(rule: Any) -> Any:
    """Adam and AdamW differ in their decay alone."""
    return "adam" if rule == "adamw" else rule


def _same(a: Any, b: Any) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-15) if numbers else a == b


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
