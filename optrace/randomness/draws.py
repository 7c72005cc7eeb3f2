"""The draw of a recorded call: what it drew, in a form that another call can be given."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from optrace import ops
from optrace.trace.effect import effect, effect_of, short
from optrace.trace.model import Trace
from optrace.trace.records import Call, tensors_in

MASKS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_dropout",
    "native_dropout",
    "fused_dropout_add",
)
ALPHA = ("alpha_dropout", "feature_alpha_dropout")
_SAMPLES = {
    "rand": "uniform",
    "rand_like": "uniform",
    "uniform": "uniform",
    "randn": "normal",
    "randn_like": "normal",
    "normal": "normal",
    "standard_normal": "normal",
    "gaussian": "normal",
    "randint": "integers",
    "randint_like": "integers",
    "random": "integers",
    "randperm": "permutation",
    "bernoulli": "mask",
    "multinomial": "multinomial",
    "poisson": "poisson",
    "binomial": "binomial",
    "exponential": "exponential",
    "cauchy": "cauchy",
    "geometric": "geometric",
    "log_normal": "log_normal",
    "standard_gamma": "gamma",
}


_WHOLE = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5, "feature_dropout": 0, "feature_alpha_dropout": 0}


def own_axes(name: str, given: dict[str, Any], rank: int) -> set[int]:
    """The axes along which a dropping call of this short name draws anew; it drops whole slices of the others."""
    axis = given.get("axis")
    if axis is not None:
        return {a % rank for a in (axis if isinstance(axis, (list, tuple)) else [axis])}
    if name not in _WHOLE:
        return set(range(rank))
    last = rank > 2 and str(given.get("data_format") or "").endswith("C")
    if rank >= (_WHOLE[name] or rank):
        return {0, rank - 1} if last else {0, 1}
    return {rank - 1 if last else 0}


def freedom(api: str, given: dict[str, Any], shape: tuple[int, ...]) -> int:
    """How many numbers a call draws for a result of this shape: whole channels take one each."""
    return math.prod(shape[i] for i in own_axes(short(api), given, len(shape)))


class Draw(NamedTuple):
    """``values``: keep mask, slopes, noise, or the sample itself, in the shape of the call's result.

    ``read`` holds what the call read, so that a call reading the same can be told from others.
    """

    family: str
    values: np.ndarray
    call: Call
    read: np.ndarray | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The call's arguments, defaults and all."""
        return {**ops.defaults(self.call.api), **self.call.args}

    @property
    def freedom(self) -> int:
        return freedom(self.call.api, self.given, self.values.shape)


def family_of(api: str) -> str | None:
    """Calls of one family can be given each other's draws; ``None`` where none can be given."""
    name = short(api)
    if name in MASKS or name in ALPHA:
        return "mask"
    if name == "scaled_dot_product_attention":
        return "mask" if api.startswith("torch.") else None
    if name in ("rrelu", "gumbel_softmax"):
        return name
    return _SAMPLES.get(name)


def draws_of(trace: Trace) -> list[Draw]:
    """Every draw of a trace that holds values, in order; of nested calls the outermost that has one."""
    found: list[Draw] = []
    taken: set[int] = set()
    for call in trace.calls:
        if call.parent in taken:
            taken.add(call.id)
        elif call.error is None and call.phase in ("forward", "loss"):
            draw = draw_of(trace, call)
            if draw is not None:
                found.append(draw)
                taken.add(call.id)
    return found


def draw_of(trace: Trace, call: Call) -> Draw | None:
    """What ``call`` drew; ``None`` for a call that draws nothing or whose draw can't be had."""
    family = family_of(call.api)
    if family is None or not effect(call).effective:
        return None
    read = next(iter(tensors_in(call.positional) + tensors_in(call.keyword)), None)
    made = next(iter(tensors_in(call.outputs)), None)
    x = trace.value(read) if read is not None else None
    y = trace.value(made) if made is not None else None
    if call.draw is not None:
        values = trace.value(call.draw)
    elif y is None:
        return None
    elif family in ("mask", "rrelu", "gumbel_softmax") and short(call.api) != "bernoulli":
        values = None if x is None else _derived(trace, call, family, x, y)
    else:
        values = y
    return None if values is None else Draw(family, values, call, x)


def _derived(trace: Trace, call: Call, family: str, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """What stands between input and output."""
    if family == "gumbel_softmax":
        return _gumbel(trace, call, x, y)
    if x.shape != y.shape:
        return None
    if family == "rrelu":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x < 0, y / x, 1).astype(x.dtype)
    if short(call.api) in ALPHA:
        scale, shift, dropped = alpha_terms(effect(call).p or 0.0)
        return np.abs(y - (scale * x + shift)) < np.abs(y - (scale * dropped + shift))
    return (y != 0) | (x == 0)


def _gumbel(trace: Trace, call: Call, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The noise: of the exponentials drawn inside, or what takes the logits to the result."""
    for child in trace.children_of(call.id):
        if short(child.api) == "exponential":
            made = tensors_in(child.outputs)
            inner = trace.value(made[0]) if made else None
            if inner is not None:
                return -np.log(inner)
    args = {**ops.defaults(call.api), **call.args}
    if args.get("hard"):
        # Only the winner shows; any noise that lets it win will do.
        return np.where(y > 0.5, np.abs(x).max() * 2 + 50, 0).astype(x.dtype)
    tau = args.get("tau", args.get("temperature", 1.0))
    return (np.log(np.maximum(y, np.finfo(np.float32).tiny)) * tau - x).astype(x.dtype)


def alpha_terms(p: float) -> tuple[float, float, float]:
    """Scale and shift of alpha dropout, and the value that dropped elements take before them."""
    dropped = -1.7580993408473766
    scale = ((1 - p) * (1 + p * dropped**2)) ** -0.5 if p < 1 else 0.0
    return scale, -scale * dropped * p, dropped


# What the distributions call their lower end (or location) and their upper end (or scale), by framework.
_FIRST = {
    "uniform": ("from_", "min", "a"),
    "normal": ("mean",),
    "log_normal": ("mean",),
    "cauchy": ("median", "loc"),
    "integers": ("low", "from_"),
    "rrelu": ("lower",),
}
_SECOND = {
    "uniform": ("to", "max", "b"),
    "normal": ("std",),
    "log_normal": ("std",),
    "cauchy": ("sigma", "scale"),
    "integers": ("high", "to"),
    "rrelu": ("upper",),
    "exponential": ("lambd", "lam"),
}
_STANDARD = {"uniform": (0.0, 1.0), "normal": (0.0, 1.0)}


def spread_of(args: dict[str, object], family: str) -> tuple[float, float] | None:
    """Location and scale of a call's distribution, ``None`` where they are tensors or make no sense."""
    first, second = (
        next((args[n] for n in names.get(family, ()) if args.get(n) is not None), None)
        for names in (_FIRST, _SECOND)
    )
    low, high = _STANDARD.get(family, (None, None))
    first, second = low if first is None else first, high if second is None else second
    if family == "exponential":
        return (0.0, 1 / second) if isinstance(second, (int, float)) and second else None
    if family == "integers" and isinstance(first, (int, float)) and second is None:
        first, second = 0, first
    if not isinstance(first, (int, float)) or not isinstance(second, (int, float)):
        return None
    scale = second - first if family in ("uniform", "integers", "rrelu") else second
    return (float(first), float(scale)) if scale else None


def kept_share(api: str, given: dict[str, Any]) -> float | None:
    """The share of a mask that a call keeps on average; ``None`` where it draws none, or by a tensor."""
    p = effect_of(api, given).p
    return p if p is None or short(api) == "bernoulli" else 1 - p


def thinned(mask: np.ndarray, theirs: float, own: float) -> np.ndarray:
    """The mask of a share ``theirs``, with as many elements changed as make it one of the share ``own``."""
    if math.isclose(theirs, own):
        return mask
    chance = np.random.default_rng(0).random(mask.shape)
    kept = mask.astype(bool)
    kept = kept & (chance < own / theirs) if own < theirs else kept | (chance < (own - theirs) / (1 - theirs))
    return kept.astype(mask.dtype)


def restated(values: np.ndarray, family: str, base: dict[str, object], mine: dict[str, object]) -> np.ndarray:
    """What a call with the arguments ``mine`` would have drawn where one with ``base`` drew ``values``."""
    theirs, own = spread_of(base, family), spread_of(mine, family)
    if not theirs or not own or theirs == own:
        return values
    if family == "log_normal":
        with np.errstate(divide="ignore"):
            return np.exp((np.log(values) - theirs[0]) / theirs[1] * own[1] + own[0])
    moved = (values - theirs[0]) / theirs[1] * own[1] + own[0]
    return np.floor(moved).astype(values.dtype) if family == "integers" else moved
