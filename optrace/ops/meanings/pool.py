"""Average pooling: whether the padding counts matters only where there is padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from optrace.ops.forms import padding
from optrace.ops.meanings.base import Meaning
from optrace.ops.reading import Side, Term


class AveragePool(Meaning):
    """``count_include_pad`` of torch, ``exclusive`` of paddle: each says the opposite of the other."""

    takes: ClassVar[frozenset[str]] = frozenset(("count_include_pad", "exclusive"))
    terms: ClassVar[frozenset[str]] = frozenset(("count_include_pad",))

    def read(self, side: Side) -> dict[str, Term]:
        name = "count_include_pad" if side.framework == "torch" else "exclusive"
        given = side.args.get(name)
        if not isinstance(given, bool) or padding(side.args.get("padding"), side, "padding") == 0:
            return {}
        return {"count_include_pad": Term(given if side.framework == "torch" else not given, name, given)}

    def write(self, terms: Mapping[str, Term], side: Side, base: Side) -> dict[str, Any] | None:
        name = "count_include_pad" if side.framework == "torch" else "exclusive"
        given = base.args.get("count_include_pad", base.args.get("exclusive"))
        if given is None or name not in side.signature.names:
            return {}
        return {name: given if side.framework == base.framework else not given}
