"""``LayerMap`` and ``add_special_init`` of PaDiff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optrace import weights
from optrace.padiff.proxy import create_model


class LayerMap:
    """Pairs of layers that are compared as wholes (``map``), and layers that are left out."""

    def __init__(self) -> None:
        self.map: dict[Any, Any] = {}
        self.ignored: list[tuple[Any, str]] = []

    def ignore(self, layer: Any) -> None:
        """Leave a layer out, not those inside it."""
        self.ignored.append((layer, "self"))

    def ignore_recursivly(self, layer: Any) -> None:
        """Leave a layer out with all inside it."""
        self.ignored.append((layer, "all"))

    def ignore_class(self, layer: Any, layer_class: Any) -> None:
        """Leave out what inside ``layer`` is of a class."""
        modules = [layer, *create_model(layer).selection.of_class(layer_class)]
        self.ignored += [(m, "self") for m in modules if isinstance(m, layer_class)]

    def auto(self, base_model: Any, raw_model: Any) -> bool:
        """Map the layers that have a special init, in order; false where the two models have not as many."""
        base, raw = create_model(base_model), create_model(raw_model)
        base.auto_layer_map("base")
        raw.auto_layer_map("raw")
        names = base.selection.mapped, raw.selection.mapped
        if len(names[0]) != len(names[1]):
            return False
        self.map.update({base.selection.modules[a]: raw.selection.modules[b] for a, b in zip(*names)})
        return True


def add_special_init(
    base_framework: str,
    base_model_name: str,
    raw_framework: str,
    raw_model_name: str,
    func: Callable[[Any, Any], Any],
) -> None:
    """Register ``func(base_layer, raw_layer)``, which gives the raw layer the base layer's weights."""
    weights.add_special_init(base_framework, base_model_name, raw_framework, raw_model_name)(func)
