"""``create_model``: a model that records its layers as it runs, and dumps them."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path
from typing import Any

from optrace.errors import InputError
from optrace.frameworks.training import training_of
from optrace.layers.dump import write_parameters, write_report
from optrace.layers.parameters import gradients, weights
from optrace.layers.recorder import Recorder
from optrace.layers.records import LayerRun
from optrace.layers.selection import Mode, Selection
from optrace.weights import special

_root = os.path.join(sys.path[0] or os.getcwd(), "padiff_dump")
_living: weakref.WeakValueDictionary[str, ProxyModel] = weakref.WeakValueDictionary()
# Layers that PaDiff carries over by functions of its own, so that its users map them.
_KNOWN = ("LSTM", "MultiheadAttention", "MultiHeadAttention", "BatchNorm2d", "BatchNorm2D")


def set_dump_root_path(path: str) -> None:
    """Where models created from now on dump to. The default is ``padiff_dump`` beside the script."""
    global _root
    _root = str(path)


def get_dump_root_path() -> str:
    """The folder that holds the dumps of all models."""
    return _root


def create_model(model: Any, name: str | None = None, dump_freq: int = 1) -> ProxyModel:
    """The model in a proxy that records its layers when it is called, and every ``dump_freq`` steps dumps them.

    ``name`` names the folder of its dumps, the class where it is ``None``. Two models that live at the same
    time never share a folder: the second gets a number. Raises ``FrameworkMissing`` for what is no model.
    """
    return model if isinstance(model, ProxyModel) else ProxyModel(model, name, dump_freq)


def bare(model: Any) -> Any:
    """The model in a proxy, or the model itself."""
    return model.model if isinstance(model, ProxyModel) else model


class ProxyModel:
    """See ``create_model``. What is not defined here is the model's own: ``proxy.parameters()``, ``proxy.eval()``."""

    def __init__(self, model: Any, name: str | None = None, dump_freq: int = 1) -> None:
        if dump_freq < 1:
            raise InputError(f"dump_freq is {dump_freq}; give the number of steps from one dump to the next")
        self.selection = Selection(model)
        self.model = model
        self.framework = self.selection.framework.name
        self.name, self.dump_path = _place(name or type(model).__name__)
        _living[self.dump_path] = self
        self.dump_freq = dump_freq
        self.step = 0
        self.backward_running = False
        self.clear_report()

    def __getattr__(self, name: str) -> Any:
        if name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def __repr__(self) -> str:
        return f"ProxyModel({self.framework}::{type(self.model).__name__}, name={self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.step % self.dump_freq or self.backward_running:
            return self.model(*args, **kwargs)
        with Recorder(self.selection, self.report):
            return self.model(*args, **kwargs)

    def backward(self, loss: Any) -> Any:
        """``loss.backward()``; layers that run again within it (recomputation) are not recorded twice."""
        self.backward_running = True
        try:
            return loss.backward()
        finally:
            self.backward_running = False

    # -- dumps -----------------------------------------------------------------------------------

    @property
    def rank_path(self) -> str:
        return f"rank_{training_of(self.framework).rank()}"

    def try_dump(self, dump_path: str | int | None = None) -> None:
        """Dump where this step is one to dump, forget what was recorded, and count the step.

        The folder is ``<dump_path of the model>/step_<n>/rank_<r>`` unless one is given; a number counts as
        the ``dump_freq`` of this call.
        """
        every = dump_path if isinstance(dump_path, int) else self.dump_freq
        if self.step % every == 0:
            place = Path(self.dump_path, f"step_{self.step}", self.rank_path)
            given = dump_path if isinstance(dump_path, str | Path) else place
            self.dump_params(given)
            self.dump_report(given)
        self.clear_report()
        self.step += 1

    def dump_report(self, dump_path: str | Path | None = None) -> None:
        """Write what the layers made to ``report.json``."""
        write_report(self.report, self._folder(dump_path), self.name)

    def dump_params(self, dump_path: str | Path | None = None) -> None:
        """Write the parameters and their gradients to ``params.json``."""
        self._parameters(dump_path, weights(self.model), gradients(self.model))

    def dump_weights(self, dump_path: str | Path | None = None) -> None:
        """Write the parameters to ``weights.json``."""
        self._parameters(dump_path, weights(self.model), None)

    def dump_grads(self, dump_path: str | Path | None = None) -> None:
        """Write the parameters' gradients to ``grads.json``."""
        self._parameters(dump_path, None, gradients(self.model))

    def _parameters(self, dump_path: str | Path | None, values: Any, grads: Any) -> None:
        write_parameters(self.selection, self._folder(dump_path), self.name, values, grads)

    def _folder(self, dump_path: str | Path | None) -> Path:
        return Path(dump_path) if dump_path is not None else Path(self.dump_path, self.rank_path)

    def clear_report(self) -> None:
        """Forget what was recorded so far."""
        self.report = LayerRun(
            type(self.model).__name__, self.framework, layer_map=list(self.selection.mapped)
        )

    # -- which layers ----------------------------------------------------------------------------

    def update_black_list(self, layers: Any, mode: Mode = "all") -> None:
        """Leave layers out; ``mode`` is ``"self"``, ``"sublayers"`` or ``"all"``."""
        self.selection.black(layers, mode)

    def update_white_list(self, layers: Any, mode: Mode = "self") -> None:
        """Look at these layers only."""
        self.selection.white(layers, mode)

    def update_black_list_with_class(self, layer_class: Any, mode: Mode = "self") -> None:
        """Leave out the layers of a class (or a tuple of classes)."""
        self.selection.black(self.selection.of_class(layer_class), mode)

    def update_white_list_with_class(self, layer_class: Any, mode: Mode = "self") -> None:
        """Look at the layers of a class (or a tuple of classes) only."""
        self.selection.white(self.selection.of_class(layer_class), mode)

    def update_unassigned_weights_list(self, layers: Any, mode: Mode = "self") -> None:
        """Leave the parameters of layers out when parameters are compared."""
        self.selection.unassign(layers, mode)

    def set_layer_map(self, layers: Any) -> None:
        """Compare these layers as wholes, each with the layer at its place in the other model's list."""
        self.selection.map(layers)
        self.report.layer_map = list(self.selection.mapped)

    def auto_layer_map(self, model_place: str) -> bool:
        """``set_layer_map`` with the layers of classes that have a special init, in the order of the tree.

        ``model_place``: ``"base"`` or ``"raw"``.
        """
        if model_place not in ("base", "raw"):
            raise InputError(f"model_place is {model_place!r}; say 'base' or 'raw'")
        names = {*_KNOWN, *special.classes(self.framework, model_place)}
        layers = [n for n, m in self.selection.modules.items() if n and type(m).__name__ in names]
        self.set_layer_map([n for n in layers if not any(n.startswith(f"{o}.") for o in layers)])
        return True


def _place(name: str) -> tuple[str, str]:
    """A name, and the folder of it, that no other living model has."""
    number, own = 1, name
    while f"{_root}/{own}" in _living:
        number += 1
        own = f"{name}_{number}"
    return own, f"{_root}/{own}"
