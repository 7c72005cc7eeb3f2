"""The defaults in the table are those of the frameworks."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from execution import function

from optrace.ops.reading import same
from optrace.ops.signature import SYNONYMS, Signature
from optrace.ops.table import table

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

PREFIX = {"torch.linalg": "linalg_", "torch.fft": "fft_", "torch.special": "special_"}


def actual(api: str) -> list[dict[str, Any]]:
    """Defaults of each overload of a function, by its own parameter names."""
    found = function(api)
    try:
        parameters = inspect.signature(found).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return []
        return [{p.name: p.default for p in parameters if p.default is not p.empty}]
    except (TypeError, ValueError):
        pass
    if not api.startswith("torch."):
        return []
    namespace, _, last = api.rpartition(".")
    schemas = torch._C._jit_get_schemas_for_operator("aten::" + PREFIX.get(namespace, "") + last)
    return [{a.name: a.default_value for a in s.arguments if a.has_default_value()} for s in schemas]


def wrong(signature: Signature, overloads: list[dict[str, Any]]) -> list[str]:
    """Parameters whose default is known and is another one in every overload that has it."""
    problems = []
    for name, default in signature.defaults().items():
        if name == "dtype" or (name == "reduction" and isinstance(default, int)):
            # torch's schema has a number for int64; for the losses it says 1 (mean), and yet 0 is what they do
            continue
        spellings = {name, *(s for group in SYNONYMS if name in group for s in group)}
        exact = [o[name] for o in overloads if name in o]
        values = exact or [v for o in overloads for s, v in o.items() if s in spellings]
        if values and not any(_same(default, v) for v in values):
            problems.append(f"{signature.api}: {name}={default!r}, in fact {values[0]!r}")
    return problems


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, (list, tuple)) and not isinstance(a, (list, tuple)):
        # one number for every axis; an empty list where None may stand
        return all(_same(a, v) for v in b) if b else a is None
    if isinstance(a, str) and not isinstance(b, str):
        return str(b).endswith(a)  # a dtype
    return a == b if isinstance(a, bool) or isinstance(b, bool) else same(a, b)


def test_defaults() -> None:
    problems = []
    seen = set()
    for row in table().rows:
        for api in (*row.names("torch"), *row.names("paddle")):
            if "*" in api or api in seen or api.split(".")[0] not in ("torch", "paddle"):
                continue
            seen.add(api)
            signatures = [s for _, s in table().signatures(api)]
            results = [wrong(s, actual(api)) for s in signatures]
            if signatures and "_C_ops" not in api:
                problems += min(results, key=len)
    assert problems == []
