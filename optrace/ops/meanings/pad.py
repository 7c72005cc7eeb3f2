"""Padding: torch counts pairs from the last axis; paddle has three ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import UNKNOWN, plain
from optrace.ops.meanings.base import Meaning
from optrace.ops.reading import Side, Term


class Pad(Meaning):
    """Read as a pair of numbers for each axis, counted from the front."""

    takes: ClassVar[frozenset[str]] = frozenset(("pad", "padding", "pad_from_left_axis"))
    terms: ClassVar[frozenset[str]] = frozenset(("pad",))

    def read(self, side: Side) -> dict[str, Term]:
        name = "pad" if "pad" in side.args else "padding"
        shape = side.input_shape
        pairs = plain(side.args.get(name))
        if shape is None or pairs is UNKNOWN or pairs is None:
            return {}
        rank = len(shape)
        if isinstance(pairs, int):
            pairs = (pairs,) * 2 * max(rank - 2, 1)
        if len(pairs) % 2 or not all(isinstance(n, int) for n in pairs):
            return {}
        two = [(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]
        channels_last = str(side.args.get("data_format", "NCHW")).endswith("C")
        if (
            side.framework == "paddle"
            and len(two) == rank
            and side.args.get("mode", "constant") == "constant"
        ):
            front_first = side.args.get("pad_from_left_axis", True)
            placed = two if front_first else two[::-1]
        elif side.framework == "paddle" and channels_last and len(two) < rank - 1:
            placed = [(0, 0)] * (rank - len(two) - 1) + two[::-1] + [(0, 0)]
        else:
            placed = [(0, 0)] * (rank - len(two)) + two[::-1]
        return {"pad": Term(tuple(placed), name, side.args[name])}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        if "pad" not in terms:
            return None
        pairs = list(terms["pad"].value)
        name = "pad" if "pad" in side.signature.names else "padding"
        if side.framework == base.framework:
            return {name: terms["pad"].written}
        constant = base.args.get("mode", "constant") == "constant"
        whole = "pad_from_left_axis" in side.signature.names or len(pairs) < 3
        if side.framework == "paddle" and constant and whole:
            return {name: [n for pair in pairs for n in pair]}
        while len(pairs) > 1 and pairs[0] == (0, 0):
            pairs.pop(0)
        if side.framework == "paddle":
            # paddle's reflect, replicate and circular modes want every spatial axis
            spatial = len(terms["pad"].value) - 2
            pairs = list(terms["pad"].value)[-max(spatial, 1) :]
        return {name: [n for pair in reversed(pairs) for n in pair]}
