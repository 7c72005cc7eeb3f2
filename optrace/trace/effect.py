"""What a recorded call says of its own randomness: p, whether it takes effect, generator, distribution."""

from __future__ import annotations

from typing import Any, NamedTuple

from optrace import ops
from optrace.trace.records import Call, Opaque

_P = ("p", "dropout_p", "dropout", "dropout_prob", "dropout_rate", "attn_dropout_rate")
# Numbers of these names are parameters of a distribution, not the share of what is dropped.
_SWITCHES = ("training", "train")
_LAYERED = ("lstm", "gru", "rnn_tanh", "rnn_relu", "rnn")


class Effect(NamedTuple):
    """``drops``: with p = 0 or outside training such a call draws nothing."""

    effective: bool
    p: float | None
    drops: bool


def short(api: str) -> str:
    """``"torch.Tensor.normal_"`` -> ``"normal"``."""
    return api.rpartition(".")[2].rstrip("_")


def effect_of(api: str, args: dict[str, Any], moved: bool | None = None) -> Effect:
    """``args``: bound ones. ``moved``: whether the generator was seen to move, where it was watched."""
    given = {**ops.defaults(api), **args}
    name = short(api)
    training = next((bool(given[s]) for s in _SWITCHES if given.get(s) is not None), True)
    if given.get("is_test") is not None:
        training = not given["is_test"]
    number = next((given[k] for k in _P if isinstance(given.get(k), (int, float))), None)
    p = None if number is None or isinstance(number, bool) else float(number)
    if name == "rrelu":
        return Effect(training, None, True)
    drops = "dropout" in name or "attention" in name or "attn" in name or name in _LAYERED
    if drops:
        deep = name not in _LAYERED or (given.get("num_layers") or 0) > 1
        return Effect(training and bool(p) and deep, p, True)
    if name in ("bernoulli", "geometric"):
        return Effect(True, p, False)
    row = ops.lookup(api)
    known = row is not None and row.kind == "random"
    return Effect(known or bool(moved), None, False)


def effect(call: Call) -> Effect:
    """The like of a recorded call."""
    return effect_of(call.via or call.api, call.args, call.random)


def generator_of(call: Call) -> str:
    """``"default"``, or the text of the generator that was given."""
    given = call.keyword.get("generator")
    if given is None:
        given = next(
            (a for a in call.positional if isinstance(a, Opaque) and a.type_name.endswith("Generator")), None
        )
    if given is None:
        return "default"
    live = getattr(given, "obj", None)
    seed = getattr(live, "initial_seed", None)
    return f"given (seed {seed()})" if callable(seed) else "given"


def distribution_of(call: Call) -> str:
    name = short(call.api)
    for part, text in _DISTRIBUTIONS:
        if part in name:
            return text
    return name


_DISTRIBUTIONS = (
    ("dropout", "bernoulli mask"),
    ("attention", "bernoulli mask"),
    ("randn", "normal"),
    ("normal", "normal"),
    ("randperm", "permutation"),
    ("randint", "integers"),
    ("rand", "uniform"),
    ("uniform", "uniform"),
    ("rrelu", "uniform"),
)
