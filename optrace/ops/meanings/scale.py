"""Scale factors with a default that depends on the shapes, and paddle's ``scale``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import UNKNOWN, plain
from optrace.ops.meanings.base import Meaning
from optrace.ops.reading import Side, Term


class AttentionScale(Meaning):
    """Attention's scale; left out it is one over the root of the head's size."""

    takes: ClassVar[frozenset[str]] = frozenset(("scale",))
    terms: ClassVar[frozenset[str]] = frozenset(("scale",))

    def read(self, side: Side) -> dict[str, Term]:
        given = side.args.get("scale")
        if given is not None:
            return {"scale": Term(plain(given), "scale", given)}
        shape = side.shape("query")
        name = "scale" if "scale" in side.signature.names else None
        return {"scale": Term(1 / math.sqrt(shape[-1]) if shape and shape[-1] else UNKNOWN, name, None)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        if base.args.get("scale") is None:
            return {}
        return {"scale": terms["scale"].value} if "scale" in side.signature.names else None


class ScaleAdd(Meaning):
    """``x * scale + bias``, or ``(x + bias) * scale``."""

    takes: ClassVar[frozenset[str]] = frozenset(("scale", "bias", "bias_after_scale"))
    terms: ClassVar[frozenset[str]] = frozenset(("scale", "bias"))

    def read(self, side: Side) -> dict[str, Term]:
        scale, bias = plain(side.args.get("scale", 1.0)), plain(side.args.get("bias", 0.0))
        if UNKNOWN in (scale, bias):
            return {}
        if not side.args.get("bias_after_scale", True):
            bias = bias * scale
        return {
            "scale": Term(scale, "scale", side.args.get("scale", 1.0)),
            "bias": Term(bias, "bias", side.args.get("bias", 0.0)),
        }

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        return {name: terms[name].value for name in ("scale", "bias") if name in terms}
