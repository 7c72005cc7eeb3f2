"""Joint readings: calls whose arguments have a common meaning that no single argument has."""

from __future__ import annotations

from optrace.ops.meanings.base import Meaning
from optrace.ops.meanings.indexing import Index
from optrace.ops.meanings.pad import Pad
from optrace.ops.meanings.permute import Permute
from optrace.ops.meanings.pool import AveragePool
from optrace.ops.meanings.ranges import Range
from optrace.ops.meanings.resize import Resize
from optrace.ops.meanings.scale import AttentionScale, ScaleAdd
from optrace.ops.meanings.shape import Expand, Reshape, Tile
from optrace.ops.meanings.split import Split

MEANINGS: dict[str, Meaning] = {
    "permute": Permute(),
    "reshape": Reshape(),
    "expand": Expand(),
    "tile": Tile(),
    "split": Split(),
    "pad": Pad(),
    "average_pool": AveragePool(),
    "resize": Resize(),
    "range": Range(),
    "index": Index(),
    "attention_scale": AttentionScale(),
    "scale_add": ScaleAdd(),
}


def meaning(name: str) -> Meaning | None:
    """The joint reading of that name, ``None`` for no name."""
    return MEANINGS[name] if name else None
