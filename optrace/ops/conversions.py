"""Single arguments that mean the same in other numbers, by the name that ``convert`` gives in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Conversion(NamedTuple):
    """Both directions for one value; a value of another type passes as it is."""

    to_torch: Callable[[Any], Any]
    to_paddle: Callable[[Any], Any]


def _complement(value: Any) -> Any:
    return 1 - value if isinstance(value, (int, float)) else value


def _negation(value: Any) -> Any:
    return not value if isinstance(value, bool) else value


def _opposite(value: Any) -> Any:
    return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def _as_given(value: Any) -> Any:
    return value


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


CONVERSIONS: Mapping[str, Conversion] = {
    # momentum: the share of the new statistic in torch, of the old one in paddle
    "complement": Conversion(_complement, _complement),
    "negation": Conversion(_negation, _negation),
    "opposite": Conversion(_opposite, _opposite),
    "listed": Conversion(_as_given, _listed),
    "single": Conversion(_single, _listed),
    "inverse": Conversion(
        lambda v: 1 / v if isinstance(v, (int, float)) and v else v,
        lambda v: 1 / v if isinstance(v, (int, float)) and v else v,
    ),
}
