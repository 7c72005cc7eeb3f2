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
    "initial_accumulator": 0.0,
    "rescale": 1.0,
}
# In the order in which a person would look.
ORDER = (
    "rule", "decoupled", "lr", "weight_decay", "momentum", "dampening", "nesterov", "beta1", "beta2", "epsilon",
    "amsgrad", "rho", "centered", "maximize", "lr_decay", "momentum_decay", "initial_accumulator", "rescale", "etas",
    "rate_range",
)  # fmt: skip
# What is kept from step to step by the settings that change it; a setting that is not here changes only the update.
_KEPT = {
    "rule": ("moment1", "moment2", "velocity", "mean_square", "moment"),
    "weight_decay": ("moment1", "moment2", "velocity", "mean_square", "mean_grad", "moment", "inf_norm"),
    "decoupled": ("moment1", "moment2", "velocity"),
    "maximize": ("moment1", "velocity", "mean_grad"),
    "rescale": ("velocity",),
    "momentum": ("velocity",),
    "dampening": ("velocity",),
    "beta1": ("moment1",),
    "beta2": ("moment2", "inf_norm"),
    "rho": ("mean_square", "mean_grad", "mean_update"),
    "epsilon": ("inf_norm", "mean_update"),
    "initial_accumulator": ("moment",),
}
# Optimizers that, with equal settings, do not do the same in the two frameworks: the setting and how.
UNLIKE = {
    "adamax": (
        "epsilon",
        "torch adds epsilon to the gradient's size inside the maximum, paddle to the maximum",
    ),
    "rmsprop": ("epsilon", "torch adds epsilon to the root, paddle under it"),
    "adagrad": ("epsilon", "the frameworks start the sum of squares and place epsilon differently"),
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
        if name == "epsilon" and _same(_epsilon(base), _epsilon(raw)):
            continue
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


def likeliest(found: list[SettingDifference], parted: set[str]) -> list[SettingDifference]:
    """``found``, first those that explain why the state ``parted`` (names; may be empty) differs after the step."""

    def fits(d: SettingDifference) -> bool:
        kept = _KEPT.get(d.name, ())
        return bool(parted & set(kept)) if parted else not kept

    return sorted(found, key=lambda d: (d.name != "rule", not fits(d)))


def _epsilon(settings: Mapping[str, Any]) -> Any:
    """Epsilon as it would be beside the root."""
    value = settings.get("epsilon")
    return math.sqrt(value) if settings.get("epsilon_under_root") and value is not None else value


def _family(rule: Any) -> Any:
    """Adam and AdamW differ in their decay alone."""
    return "adam" if rule == "adamw" else rule


def _same(a: Any, b: Any) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-30) if numbers else a == b


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
