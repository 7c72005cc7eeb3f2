"""Gradients, hooks and optimizers of torch."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from optrace.frameworks import loaded
from optrace.frameworks.training import OptimizerSetting, Patch, Receive, Training
from optrace.transparent import transparent

_NAMES = {
    "lr": "lr",
    "beta1": "betas",
    "beta2": "betas",
    "epsilon": "eps",
    "weight_decay": "weight_decay",
    "momentum": "momentum",
    "dampening": "dampening",
    "nesterov": "nesterov",
    "amsgrad": "amsgrad",
    "rho": "alpha",
    "centered": "centered",
    "maximize": "maximize",
    "lr_decay": "lr_decay",
    "momentum_decay": "momentum_decay",
    "initial_accumulator": "initial_accumulator_value",
    "etas": "etas",
    "rate_range": "step_sizes",
}
# The rules that call their decay of squares otherwise.
_RHO = {"adadelta": "rho"}
_STATE = {
    "exp_avg": "moment1",
    "exp_avg_sq": "moment2",
    "max_exp_avg_sq": "moment2_max",
    "exp_inf": "inf_norm",
    "momentum_buffer": "velocity",
    "square_avg": "mean_square",
    "acc_delta": "mean_update",
    "grad_avg": "mean_grad",
    "sum": "moment",
}


class TorchTraining(Training):
    """See ``Training``."""

    def gradient(self, tensor: Any) -> Any:
        return tensor.grad if tensor.is_leaf else None

    def can_hook(self, tensor: Any) -> bool:
        return bool(tensor.requires_grad)

    def hook(self, tensor: Any, told: Callable[[Any], None]) -> Callable[[], None]:
        with torch._C.DisableTorchFunction():
            handle = tensor.register_hook(told)
        return handle.remove  # type: ignore[no-any-return]

    def redirect(self, tensor: Any, change: Callable[[Any], Any]) -> Callable[[], None]:
        return self.hook(tensor, change)

    def substitute(self, tensor: Any, array: np.ndarray | None) -> Any:
        return _Substitute.apply(tensor, array)

    def patch(self, receive: Receive) -> Patch:
        return _Patch(receive)

    def parameters_of(self, optimizer: Any) -> Iterator[tuple[Any, OptimizerSetting]]:
        if not isinstance(optimizer, torch.optim.Optimizer):
            return
        rule = type(optimizer).__name__.lower()
        names = {**_NAMES, "rho": _RHO.get(rule, _NAMES["rho"])}
        for group in optimizer.param_groups:
            values: dict[str, Any] = {"rule": rule, "clip": None}
            for shared, name in names.items():
                if name == "betas" and "betas" in group:
                    values[shared] = _number(group["betas"][int(shared == "beta2")])
                elif name in group:
                    values[shared] = _number(group[name])
            values["decoupled"] = rule in ("adamw", "muon") or bool(
                group.get("decoupled_weight_decay", False)
            )
            for parameter in group["params"]:
                yield parameter, OptimizerSetting(values, names)

    def state_of(self, optimizer: Any, parameter: Any) -> dict[str, Any]:
        kept = getattr(optimizer, "state", {}).get(parameter, {})
        return {_STATE[k]: v for k, v in kept.items() if k in _STATE and torch.is_tensor(v)}

    def vjp(
        self,
        function: Callable[[list[Any]], list[Any]],
        inputs: list[np.ndarray],
        cotangents: list[np.ndarray | None],
    ) -> list[np.ndarray | None]:
        framework = loaded("torch")
        assert framework is not None
        with torch.enable_grad():
            leaves = [framework.from_numpy(a, True) for a in inputs]
            results = function([leaf.clone() for leaf in leaves])
            pairs = [
                (r, c)
                for r, c in zip(results, cotangents)
                if c is not None and r is not None and r.requires_grad
            ]
            if not pairs:
                return [None] * len(inputs)
            grads = torch.autograd.grad(
                [r for r, _ in pairs],
                leaves,
                [framework.from_numpy(c).to(r.dtype).reshape(r.shape) for r, c in pairs],
                allow_unused=True,
            )
        return [None if g is None else framework.to_numpy(g) for g in grads]

    def rank(self) -> int:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return int(torch.distributed.get_rank())
        return int(os.environ.get("RANK", 0))

    def zero_grad(self, optimizer: Any) -> None:
        optimizer.zero_grad()


class _Substitute(torch.autograd.Function):
    """Other values, the same gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, array: np.ndarray | None) -> Any:
        if array is None:
            return tensor.detach().clone()
        framework = loaded("torch")
        assert framework is not None
        return framework.from_numpy(array).to(tensor.device, tensor.dtype).reshape(tensor.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None


class _Patch(Patch):
    """Over ``Function.apply`` and ``Tensor.register_hook``."""

    def __init__(self, receive: Receive) -> None:
        before, hook = vars(torch.autograd.Function)["apply"], torch.Tensor.register_hook

        def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return before.__get__(None, cls)(*args, **kwargs)

        @transparent
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return receive("torch.autograd.Function.apply", run, (cls, *args), kwargs)

        @transparent
        @functools.wraps(hook)
        def register_hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            return receive("torch.Tensor.register_hook", hook, (self, *args), kwargs)

        self._apply, self._before = classmethod(functools.wraps(before.__func__)(apply)), before
        self._register, self._hook = register_hook, hook

    def apply(self) -> None:
        torch.autograd.Function.apply = self._apply  # type: ignore[assignment]
        torch.Tensor.register_hook = self._register  # type: ignore[method-assign]

    def undo(self) -> None:
        if vars(torch.autograd.Function).get("apply") is self._apply:
            torch.autograd.Function.apply = self._before
        if vars(torch.Tensor).get("register_hook") is self._register:
            torch.Tensor.register_hook = self._hook  # type: ignore[method-assign]


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_number(v) for v in value]
    return value.item() if torch.is_tensor(value) else value


ADAPTER = TorchTraining()
