"""Models compared layer by layer: module trees, layer maps, black and white lists, one step at a time."""

from optrace.layers.compare import compare_layers
from optrace.layers.report import LayerFinding, LayerReport
from optrace.layers.selection import Selection

__all__ = ["LayerFinding", "LayerReport", "Selection", "compare_layers"]
