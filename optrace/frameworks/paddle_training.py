"""Gradients, hooks and optimizers of paddle."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle

from optrace.frameworks import loaded
from optrace.frameworks.training import OptimizerSetting, Patch, Receive, Training
from optrace.transparent import transparent

_NAMES = {
    "lr": "learning_rate",
    "beta1": "beta1",
    "beta2": "beta2",
    "epsilon": "epsilon",
    "weight_decay": "weight_decay",
    "momentum": "momentum",
    "nesterov": "use_nesterov",
    "amsgrad": "amsgrad",
    "rho": "rho",
    "centered": "centered",
    "clip": "grad_clip",
    "momentum_decay": "momentum_decay",
    "rescale": "rescale_grad",
    "initial_accumulator": "initial_accumulator_value",
    "etas": "etas",
    "rate_range": "learning_rate_range",
}
_ATTRIBUTES = {
    "beta1": "_beta1",
    "beta2": "_beta2",
    "epsilon": "_epsilon",
    "momentum": "_momentum",
    "nesterov": "_use_nesterov",
    "amsgrad": "_amsgrad",
    "rho": "_rho",
    "centered": "_centered",
    "momentum_decay": "_momentum_decay",
    "rescale": "_rescale_grad",
    "initial_accumulator": "initial_accumulator_value",
    "etas": "_etas",
    "rate_range": "_learning_rate_range",
}
_STATE = {
    **{
        n: n
        for n in (
            "moment1",
            "moment2",
            "moment2_max",
            "velocity",
            "mean_square",
            "mean_grad",
            "moment",
            "inf_norm",
        )
    },
    "moment2_max_pow": "moment2_max",
    "_avg_squared_grad": "mean_square",
    "_avg_squared_update": "mean_update",
}
# The rules whose class goes by another name in torch.
_RULES = {"momentum": "sgd"}


class PaddleTraining(Training):
    """See ``Training``."""

    def gradient(self, tensor: Any) -> Any:
        return tensor.grad if tensor.is_leaf else None

    def can_hook(self, tensor: Any) -> bool:
        return not tensor.stop_gradient and bool(tensor._is_initialized())

    def hook(self, tensor: Any, told: Callable[[Any], None]) -> Callable[[], None]:
        handle = tensor.register_hook(told)

        def undo() -> None:
            with warnings.catch_warnings():  # paddle warns where the graph, and the hook with it, has gone
                warnings.simplefilter("ignore", RuntimeWarning)
                handle.remove()

        return undo

    def redirect(self, tensor: Any, change: Callable[[Any], Any]) -> Callable[[], None]:
        return self.hook(tensor, change)

    def substitute(self, tensor: Any, array: np.ndarray | None) -> Any:
        # What a hook on the result of a PyLayer returns is lost; on a clone's it is not.
        return (tensor if array is None else _Substitute.apply(tensor, array)).clone()

    def patch(self, receive: Receive) -> Patch:
        return _Patch(receive)

    def parameters_of(self, optimizer: Any) -> Iterator[tuple[Any, OptimizerSetting]]:
        if not isinstance(optimizer, paddle.optimizer.Optimizer):
            return
        rule = type(optimizer).__name__.lower()
        shared: dict[str, Any] = {"rule": _RULES.get(rule, rule), "dampening": 0.0, "clip": _clip(optimizer)}
        for name, attribute in _ATTRIBUTES.items():
            if hasattr(optimizer, attribute):
                shared[name] = _number(getattr(optimizer, attribute))
        if shared["rule"] == "rmsprop":
            shared["epsilon_under_root"] = True
        rate = float(optimizer.get_lr())
        for parameter, group in _grouped(optimizer):
            values = {**shared, "lr": rate * parameter.optimize_attr.get("learning_rate", 1.0)}
            if not getattr(parameter, "need_clip", True):
                values["clip"] = None
            for name in ("beta1", "beta2", "epsilon"):
                if name in group:
                    values[name] = _number(group[name])
            values["weight_decay"], values["decoupled"] = _decay(optimizer, parameter, group)
            yield parameter, OptimizerSetting(values, _NAMES)

    def state_of(self, optimizer: Any, parameter: Any) -> dict[str, Any]:
        kept = getattr(optimizer, "_accumulators", {})
        found = {}
        for name, tensors in kept.items():
            if name in _STATE and parameter.name in tensors:
                found[_STATE[name]] = tensors[parameter.name]
        if type(optimizer).__name__ == "Adamax" and "moment" in found:
            found["moment1"] = found.pop("moment")
        return found

    def vjp(
        self,
        function: Callable[[list[Any]], list[Any]],
        inputs: list[np.ndarray],
        cotangents: list[np.ndarray | None],
    ) -> list[np.ndarray | None]:
        framework = loaded("paddle")
        assert framework is not None
        with paddle.enable_grad():
            leaves = [framework.from_numpy(a, True) for a in inputs]
            results = function([leaf.clone() for leaf in leaves])
            pairs = [
                (r, c)
                for r, c in zip(results, cotangents)
                if c is not None and r is not None and not r.stop_gradient
            ]
            if not pairs:
                return [None] * len(inputs)
            given = [framework.from_numpy(c).astype(r.dtype).reshape(r.shape) for r, c in pairs]
            grads = paddle.grad([r for r, _ in pairs], leaves, given, allow_unused=True)
        return [None if g is None else framework.to_numpy(g) for g in grads]

    def rank(self) -> int:
        return int(paddle.distributed.get_rank())

    def zero_grad(self, optimizer: Any) -> None:
        optimizer.clear_grad()


class _Substitute(paddle.autograd.PyLayer):
    """Other values, the same gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, array: np.ndarray) -> Any:
        framework = loaded("paddle")
        assert framework is not None
        return framework.from_numpy(array).astype(tensor.dtype).reshape(tensor.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class _Patch(Patch):
    """Over ``PyLayer.apply`` (inherited from a C class) and ``Tensor.register_hook``."""

    def __init__(self, receive: Receive) -> None:
        layer = paddle.autograd.PyLayer
        inherited = next(vars(c)["apply"] for c in layer.__mro__ if "apply" in vars(c))
        hook = paddle.Tensor.register_hook

        def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return inherited.__get__(None, cls)(*args, **kwargs)

        @transparent
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return receive("paddle.autograd.PyLayer.apply", run, (cls, *args), kwargs)

        @transparent
        @functools.wraps(hook)
        def register_hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            return receive("paddle.Tensor.register_hook", hook, (self, *args), kwargs)

        self._apply, self._own = classmethod(apply), vars(layer).get("apply")
        self._register, self._hook = register_hook, hook

    def apply(self) -> None:
        paddle.autograd.PyLayer.apply = self._apply
        paddle.Tensor.register_hook = self._register

    def undo(self) -> None:
        layer = paddle.autograd.PyLayer
        if vars(layer).get("apply") is self._apply:
            if self._own is None:
                del layer.apply
            else:
                layer.apply = self._own
        if vars(paddle.Tensor).get("register_hook") is self._register:
            paddle.Tensor.register_hook = self._hook


def _grouped(optimizer: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    for entry in optimizer._parameter_list or ():
        if isinstance(entry, dict):
            for parameter in entry["params"]:
                yield parameter, entry
        else:
            yield entry, {}


def _decay(optimizer: Any, parameter: Any, group: dict[str, Any]) -> tuple[Any, bool]:
    """The decay coefficient, and whether it is decoupled from the gradient."""
    if isinstance(optimizer, paddle.optimizer.AdamW):
        chosen = optimizer._apply_decay_param_fun
        if chosen is not None and not chosen(parameter.name):
            return 0.0, True
        return _coefficient(group.get("weight_decay", optimizer._weight_decay)), True
    if isinstance(optimizer, paddle.optimizer.Lamb):
        excluded = optimizer._exclude_from_weight_decay_fn
        left = excluded is not None and excluded(parameter)
        return 0.0 if left else _number(optimizer._lamb_weight_decay), True
    own = getattr(parameter, "regularizer", None)
    if own is not None:
        return _coefficient(own), False
    given = group.get("weight_decay")
    if given is None:
        given = optimizer.regularization
    if given is None:
        given = getattr(optimizer, "_regularization_coeff", 0.0)
    return _coefficient(given), False


def _coefficient(decay: Any) -> Any:
    for name in ("_coeff", "_regularization_coeff", "coeff"):
        if hasattr(decay, name):
            value = getattr(decay, name)
            return f"L1Decay({value})" if "L1" in type(decay).__name__ else _number(value)
    return _number(decay) if decay is not None else 0.0


def _clip(optimizer: Any) -> list[Any] | None:
    """What is done to gradients inside the step: the clip's class and its bound."""
    clip = getattr(optimizer, "_grad_clip", None)
    if clip is None:
        return None
    bound = getattr(clip, "clip_norm", getattr(clip, "max", None))
    return [type(clip).__name__, float(bound) if bound is not None else 0.0]


def _number(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_number(v) for v in (value[0] if len(value) == 1 else value)]
    if isinstance(value, paddle.Tensor):
        return value.item() if value.size == 1 else [float(v) for v in value.numpy().reshape(-1)]
    return value


ADAPTER = PaddleTraining()
