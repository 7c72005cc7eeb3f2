"""Recording the layers of a model through its own forward hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from optrace.frameworks.base import Framework
from optrace.frameworks.training import training_of
from optrace.layers.records import LayerCall, LayerRun, Parameter, Slot
from optrace.layers.selection import Selection


class Stepper(Protocol):
    """What may exchange the tensors that go into a layer and come out of it."""

    def entering(self, call: LayerCall, tensors: list[Any]) -> list[Any]: ...

    def leaving(self, call: LayerCall, tensors: list[Any]) -> list[Any]: ...

    def passed_on(self, tensors: list[Any]) -> list[Any]: ...


class Recorder:
    """While entered, every run of a selected layer is added to ``run``; the hooks go when it is left.

    Hooks on gradients stay, so that a backward pass that comes later is recorded, too.
    """

    def __init__(self, selection: Selection, run: LayerRun, stepper: Stepper | None = None) -> None:
        self.selection = selection
        self.run = run
        self.framework: Framework = selection.framework
        self._training = training_of(self.framework.name)
        self._stepper = stepper
        self._open: list[LayerCall] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Recorder:
        names = self.selection.names()
        for name, module in self.selection.modules.items():
            if name in names:
                self._watch(name, module)
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()

    def _watch(self, name: str, module: Any) -> None:
        def before(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            call = LayerCall(name, type(layer).__name__, _owned(self.framework, layer))
            tensors = leaves(self.framework, (args, kwargs))
            slots = iter(Slot(k) for k in range(len(tensors)))
            call.arguments = replaced(self.framework, (args, kwargs), slots)
            call.inputs = [self.framework.to_numpy(t) for t in tensors]
            (self._open[-1].children if self._open else self.run.roots).append(call)
            self._open.append(call)
            result = None
            if self._stepper is not None:
                tensors = self._stepper.entering(call, tensors)
                result = replaced(self.framework, (args, kwargs), iter(tensors))
            self._listen(tensors, call.input_grads)
            return result

        def after(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            if all(c.name != name for c in self._open):
                return None
            while (call := self._open.pop()).name != name:
                pass  # a layer inside raised, and the exception was caught
            tensors = leaves(self.framework, result)
            call.outputs = [self.framework.to_numpy(t) for t in tensors]
            if self._stepper is None:
                self._listen(tensors, call.output_grads)
                return None
            tensors = self._stepper.leaving(call, tensors)
            self._listen(tensors, call.output_grads)
            return replaced(self.framework, result, iter(self._stepper.passed_on(tensors)))

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        post = getattr(module, "register_forward_post_hook", None) or module.register_forward_hook
        self._handles.append(post(after, with_kwargs=True))

    def _listen(self, tensors: list[Any], into: list[np.ndarray | None]) -> None:
        into.extend([None] * len(tensors))
        for place, tensor in enumerate(tensors):
            if self._training.can_hook(tensor):
                self._training.hook(tensor, _keep(self.framework, into, place))


def _keep(framework: Framework, into: list[np.ndarray | None], place: int) -> Callable[[Any], None]:
    def told(gradient: Any) -> None:
        if framework.is_tensor(gradient):
            into[place] = framework.to_numpy(gradient)

    return told


def leaves(framework: Framework, tree: Any) -> list[Any]:
    """The tensors in nested containers (mappings by their order, model outputs by their fields)."""
    if framework.is_tensor(tree):
        return [tree]
    if isinstance(tree, Mapping):
        return [t for item in tree.values() for t in leaves(framework, item)]
    if isinstance(tree, (list, tuple)):
        return [t for item in tree for t in leaves(framework, item)]
    return []


def replaced(framework: Framework, tree: Any, tensors: Any) -> Any:
    """``tree`` with its tensors, in the order of ``leaves``, exchanged for those of the iterator."""
    if framework.is_tensor(tree):
        return next(tensors)
    if isinstance(tree, Mapping):
        new = [(k, replaced(framework, v, tensors)) for k, v in tree.items()]
        if type(tree) is dict:
            return dict(new)
        return type(tree)(**dict(new)) if hasattr(tree, "to_tuple") else type(tree)(new)  # type: ignore[call-arg]
    if isinstance(tree, (list, tuple)):
        items = [replaced(framework, item, tensors) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


def _owned(framework: Framework, layer: Any) -> dict[str, Parameter]:
    own = {}
    for name, tensor in framework.named_parameters(layer):
        if "." not in name:
            own[name] = parameter(framework.to_numpy(tensor))
    return own


def parameter(array: np.ndarray) -> Parameter:
    """Shape and print of a parameter's values."""
    values = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    size = np.abs(values)
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    sums = float(np.real(values.sum(dtype=wide))), float(size.sum(dtype=np.float64))
    return Parameter(tuple(array.shape), (*sums, float(size.max()) if size.size else 0.0))
