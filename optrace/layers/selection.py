"""Which layers of a model are looked at: black and white lists, a layer map, wrappers left out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

from optrace import frameworks
from optrace.errors import InputError

Mode = Literal["self", "sublayers", "all"]

# The second is how it was spelt where its users come from.
_SKIP = ("OPTRACE_SKIP_WRAP_LAYER", "PADIFF_SIKP_WRAP_LAYER")
_ON = frozenset({"1", "on", "true", "yes"})


def skip_wrappers_by_environment() -> bool:
    """Whether an environment variable asks to leave out layers without parameters of their own."""
    return any(os.environ.get(name, "").strip().lower() in _ON for name in _SKIP)


class Selection:
    """The layers of one model that take part in a comparison. The model itself always does.

    Black and white lists hold layers; ``mode`` says what an entry stands for: the layer itself (``"self"``),
    everything below it (``"sublayers"``) or both (``"all"``). With a white list only its layers take part;
    the black list is taken off last. ``mapped`` layers are looked at as one: nothing below them takes part.
    ``skip_wrappers`` leaves out layers without parameters of their own; ``None`` asks the environment
    (``OPTRACE_SKIP_WRAP_LAYER=1``).
    """

    def __init__(self, model: Any, skip_wrappers: bool | None = None) -> None:
        self.model = model
        self.framework = frameworks.of_module(model)
        self.skip_wrappers = skip_wrappers
        self.mapped: list[str] = []
        self.unassigned: set[str] = set()  # whose parameters are not compared
        self._black: set[str] = set()
        self._white: set[str] | None = None
        self.modules = dict(self.framework.named_modules(model))

    def black(self, layers: Any, mode: Mode = "all") -> None:
        """Leave layers out: objects or names, one or several."""
        self._black |= self._meant(layers, mode)
        self.unassigned |= self._meant(layers, mode)

    def white(self, layers: Any, mode: Mode = "self") -> None:
        """Look at nothing but these (and those of earlier calls)."""
        self._white = (self._white or set()) | self._meant(layers, mode)

    def map(self, layers: Any) -> None:
        """Look at these as wholes."""
        self.mapped = [self.path(layer) for layer in _several(layers)]

    def unassign(self, layers: Any, mode: Mode = "self") -> None:
        """Leave the parameters of layers out of what is compared."""
        self.unassigned |= self._meant(layers, mode)

    def of_class(self, kind: type | tuple[type, ...]) -> list[Any]:
        """The layers of a class, in the order of the tree."""
        return [m for name, m in self.modules.items() if name and isinstance(m, kind)]

    def path(self, layer: Any) -> str:
        """The name of a layer in the model. Raises ``InputError`` for one it does not have."""
        if isinstance(layer, str):
            if layer in self.modules:
                return layer
        else:
            for name, module in self.modules.items():
                if module is layer:
                    return name
        what = repr(layer) if isinstance(layer, str) else f"{type(layer).__name__} at {id(layer):#x}"
        raise InputError(
            f"{what} is not a layer of this {type(self.model).__name__}; "
            f"its layers are: {', '.join(n for n in self.modules if n)}"
        )

    def names(self) -> set[str]:
        """Names of the layers that take part; the model itself is ``""``."""
        skip = skip_wrappers_by_environment() if self.skip_wrappers is None else self.skip_wrappers
        chosen = {n for n in self.modules if self._white is None or n in self._white} - self._black
        chosen = {n for n in chosen if not any(n.startswith(f"{m}.") for m in self.mapped)}
        if skip:
            chosen = {n for n in chosen if self.owns(n) or n in self.mapped}
        return chosen | {""}

    def owns(self, name: str) -> bool:
        """Whether a layer has parameters or buffers of its own."""
        start = f"{name}." if name else ""
        return any("." not in full[len(start) :] for full in self._stored if full.startswith(start))

    @property
    def _stored(self) -> set[str]:
        pairs = (self.framework.named_parameters, self.framework.named_buffers)
        return {name for named in pairs for name, _ in named(self.model)}

    def _meant(self, layers: Any, mode: Mode) -> set[str]:
        if mode not in ("self", "sublayers", "all"):
            raise InputError(f"mode {mode!r} is not one of 'self', 'sublayers', 'all'")
        found: set[str] = set()
        for layer in _several(layers):
            path = self.path(layer)
            if mode != "sublayers":
                found.add(path)
            if mode != "self":
                found.update(
                    n for n in self.modules if n != path and n.startswith(f"{path}." if path else "")
                )
        return found


def _several(layers: Any) -> Iterable[Any]:
    if isinstance(layers, str) or any(f.is_module(layers) for f in frameworks.all_loaded()):
        return [layers]
    return list(layers)
