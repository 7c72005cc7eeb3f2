"""The same run twice: the first call that comes out differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from optrace import frameworks
from optrace.randomness.audit import random_ops_of
from optrace.trace.effect import effect
from optrace.trace.model import Trace
from optrace.trace.records import Call, tensors_in
from optrace.trace.session import trace


class Divergence(msgspec.Struct):
    """The first call of the second run that is not as in the first. ``drew``: it draws random numbers."""

    message: str
    first: Call | None
    second: Call | None
    drew: bool = False

    def __str__(self) -> str:
        return self.message


def check_determinism(run: Callable[[], Any], seed: int | None = 0) -> Divergence | None:
    """Run ``run()`` twice from one seed (``None``: without seeding) and name the first difference.

    ``None`` when the two runs agree bit for bit. Generators are left as they were before.
    """
    loaded = [f for name in frameworks.NAMES if (f := frameworks.loaded(name)) is not None]
    states = [f.rng_state() for f in loaded]
    try:
        traces = [_once(run, loaded, seed) for _ in range(2)]
    finally:
        for framework, state in zip(loaded, states):
            framework.set_rng_state(state)
    return first_divergence(*traces)


def _once(run: Callable[[], Any], loaded: list[Any], seed: int | None) -> Trace:
    if seed is not None:
        for framework in loaded:
            framework.seed(seed)
    with trace(level="full") as recorded:
        run()
    return recorded


def first_divergence(a: Trace, b: Trace) -> Divergence | None:
    """The first call in which two traces of one program part."""
    for x, y in zip(a.calls, b.calls):
        if x.api != y.api:
            return Divergence(f"run 1 calls {x.api} ({x.site}), run 2 {y.api} ({y.site})", x, y)
    # Inner calls end before the outer ones they make differ: the innermost is the one to name.
    for x, y in sorted(zip(a.calls, b.calls), key=lambda pair: _end(a, pair[0])):
        if _differ(a, b, x, y):
            drew = x.random or effect(x).effective
            return Divergence(_text(a, x, drew), x, y, drew)
    if len(a.calls) != len(b.calls):
        longer = (a if len(a.calls) > len(b.calls) else b).calls[min(len(a.calls), len(b.calls))]
        return Divergence(f"one run makes more calls, from {longer.api} ({longer.site}) on", longer, None)
    return None


def _end(found: Trace, call: Call) -> int:
    """The id of the last call made inside ``call``."""
    children = found.children_of(call.id)
    return _end(found, children[-1]) if children else call.id


def _text(found: Trace, call: Call, drew: bool) -> str:
    where = f"{call.api} ({call.site})" + (f" in module {call.module}" if call.module else "")
    if not drew:
        return (
            f"{where} gives other numbers in a second run: a non-deterministic kernel, or data that differs"
        )
    active = sum(op.effective and op.distribution == "bernoulli mask" for op in random_ops_of(found))
    hint = f"; {active} dropouts are active: call eval() on the model if it is not to drop" if active else ""
    return f"{where} draws random numbers that no seed fixes{hint}"


def _differ(a: Trace, b: Trace, x: Call, y: Call) -> bool:
    for r, s in zip(tensors_in(x.outputs), tensors_in(y.outputs)):
        u, v = a.value(r), b.value(s)
        if u is None or v is None:
            continue
        if u.shape != v.shape or not np.array_equal(u, v, equal_nan=u.dtype.kind in "fc"):
            return True
    return False
