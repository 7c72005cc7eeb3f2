"""What training adds to the interface of a framework: gradients, hooks, optimizers."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

# (api, function that makes the call, its arguments, keywords) -> result
Receive = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class OptimizerSetting(NamedTuple):
    """How one parameter is updated.

    ``values`` uses shared names (``lr, beta1, beta2, epsilon, weight_decay, decoupled, momentum, dampening,
    nesterov, amsgrad, rho, centered, clip``); ``names`` tells the argument a user would type for each.
    """

    values: dict[str, Any]
    names: dict[str, str]


class Patch(ABC):
    """Something put in place for the time of a trace."""

    @abstractmethod
    def apply(self) -> None: ...

    @abstractmethod
    def undo(self) -> None: ...


class Training(ABC):
    """The part of one framework that only training needs."""

    @abstractmethod
    def gradient(self, tensor: Any) -> Any:
        """The gradient accumulated in a leaf, ``None`` without one."""

    @abstractmethod
    def hook(self, tensor: Any, told: Callable[[Any], None]) -> Callable[[], None]:
        """Tell ``told`` each gradient that reaches ``tensor``, changing nothing; returns the undo."""

    @abstractmethod
    def can_hook(self, tensor: Any) -> bool:
        """Whether a gradient may reach ``tensor`` and can be seen there."""

    @abstractmethod
    def redirect(self, tensor: Any, change: Callable[[Any], Any]) -> Callable[[], None]:
        """Replace each gradient that reaches ``tensor`` by what ``change`` returns; returns the undo."""

    @abstractmethod
    def substitute(self, tensor: Any, array: np.ndarray | None) -> Any:
        """A new tensor through which gradients flow to ``tensor``, with its values or those of ``array``."""

    @abstractmethod
    def patch(self, receive: Receive) -> Patch:
        """While applied, custom autograd functions and tensors' ``register_hook`` are reported."""

    @abstractmethod
    def parameters_of(self, optimizer: Any) -> Iterator[tuple[Any, OptimizerSetting]]:
        """The parameters of one of the framework's own optimizers, each with how it is updated."""

    @abstractmethod
    def state_of(self, optimizer: Any, parameter: Any) -> dict[str, Any]:
        """Tensors that the optimizer keeps for one parameter, by names that both frameworks share."""

    @abstractmethod
    def vjp(
        self,
        function: Callable[[list[Any]], list[Any]],
        inputs: list[np.ndarray],
        cotangents: list[np.ndarray | None],
    ) -> list[np.ndarray | None]:
        """Gradients of ``function`` at ``inputs`` for the given gradients of its results."""

    @abstractmethod
    def rank(self) -> int:
        """The number of this process among those that train together; 0 where it is the only one."""

    @abstractmethod
    def zero_grad(self, optimizer: Any) -> None:
        """Clear the gradients of the optimizer's parameters."""


def training_of(name: str) -> Training:
    """The training part of the framework ``name``, which must be imported."""
    return importlib.import_module(f"optrace.frameworks.{name}_training").ADAPTER
