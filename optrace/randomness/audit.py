"""``audit_random``: every call that drew random numbers or could have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from optrace import ops
from optrace.randomness.outside import OutsideDraw, outside_draws
from optrace.trace.effect import distribution_of, effect, generator_of, short
from optrace.trace.model import Trace
from optrace.trace.records import Call, Site
from optrace.trace.session import trace


class RandomOp(msgspec.Struct):
    """One random call of one source line and module; ``calls`` says how often it ran.

    ``effective``: given its arguments, it draws. ``moved``: a generator was seen to move.
    ``generator``: ``"default"``, ``"given (seed 3)"``, ``"numpy"``, ``"python"``.
    """

    framework: str
    api: str
    site: Site | None
    module: str | None
    effective: bool
    p: float | None
    seeded: bool
    calls: int
    generator: str = "default"
    distribution: str = ""
    moved: bool = False
    note: str = ""

    def __str__(self) -> str:
        p = "" if self.p is None else f" p={self.p:g}"
        effect = "takes effect" if self.effective else "no effect"
        module = f" in module {self.module}" if self.module else ""
        note = f"; {self.note}" if self.note else ""
        return (
            f"{self.api}{p} ({self.site}){module}: {effect}, {self.calls}x, generator {self.generator}{note}"
        )


def audit_random(target: Trace | str | Path | Callable[[], Any]) -> list[RandomOp]:
    """The random calls of a trace, a saved trace or a run of ``target()``.

    A callable is run with numpy's and Python's own generators watched, too, and with the frameworks'
    watched across every call, so that calls nobody has listed are found. Draws that worker
    processes make are not seen. The streams of random numbers are those of an unwatched run.
    """
    if isinstance(target, (str, Path)):
        from optrace.trace.store import read

        return random_ops_of(read(Path(target)))
    if isinstance(target, Trace):
        return random_ops_of(target)
    session = trace(level="meta")
    session.watch_generators()
    with session as recorded, outside_draws() as outside:
        target()
    return [*random_ops_of(recorded), *_outside(outside)]


def random_ops_of(found: Trace) -> list[RandomOp]:
    """The random calls of a trace, in the order of their first run."""
    listed = RandomOps()
    listed.add(found)
    return listed.all


class RandomOps:
    """The random calls of a run, given as one trace or as several pieces."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], RandomOp] = {}

    @property
    def all(self) -> list[RandomOp]:
        """One entry per source line, module and effect, in the order of their first run."""
        return list(self._kept.values())

    def add(self, piece: Trace) -> None:
        """Count the calls of ``piece``."""
        for call in _listed(piece):
            op = _entry(call)
            first = self._kept.setdefault((op.api, op.site, op.module, op.effective, op.p, op.generator), op)
            if first is not op:
                first.calls += 1
                first.moved = first.moved or op.moved


def _listed(found: Trace) -> list[Call]:
    """The outermost calls that are known to draw, and those seen to draw without a known one inside."""
    known = {name: ops.random_ops(name) for name in found.frameworks}
    inside: set[int] = set()
    holds: set[int] = set()
    parents = {c.id: c.parent for c in found.calls}
    listed: list[Call] = []
    for call in found.calls:
        if call.parent in inside:
            inside.add(call.id)
        elif _draws(call, known[call.framework]):
            inside.add(call.id)
            listed.append(call)
            parent = call.parent
            while parent != -1 and parent not in holds:
                holds.add(parent)
                parent = parents.get(parent, -1)
    unknown = [c for c in found.calls if c.random and c.id not in inside and c.id not in holds]
    outer = {c.id for c in unknown}
    unknown = [c for c in unknown if c.parent not in outer]
    return sorted([*listed, *unknown], key=lambda c: c.id)


def _draws(call: Call, known: frozenset[str]) -> bool:
    """Names that only may draw (a factorisation, a fused layer) are listed when they did or would drop."""
    if call.api not in known and (call.via is None or call.via not in known):
        return False
    row = ops.lookup(call.api)
    return call.random or effect(call).drops or (row is not None and row.kind == "random")


def _entry(call: Call) -> RandomOp:
    found = effect(call)
    note = ""
    generator = generator_of(call)
    if not call.random and found.effective and generator == "default" and not found.drops:
        note = "the default generator did not move"
    if "eval mode" in call.context and found.drops:
        note = "active although its module is in eval mode: pass training=self.training"
    return RandomOp(
        framework=call.framework,
        api=call.api,
        site=call.site,
        module=call.module,
        effective=found.effective or call.random,
        p=found.p,
        seeded=call.seeded or "seed" in generator,
        calls=1,
        generator=generator,
        distribution=distribution_of(call),
        moved=call.random,
        note=note,
    )


def _outside(draws: list[OutsideDraw]) -> list[RandomOp]:
    kept: dict[tuple[str, Site | None], RandomOp] = {}
    for draw in draws:
        key = (draw.api, draw.site)
        if key in kept:
            kept[key].calls += 1
        else:
            kept[key] = RandomOp(
                draw.library,
                draw.api,
                draw.site,
                None,
                True,
                None,
                draw.seeded,
                1,
                draw.library,
                short(draw.api),
                True,
            )
    return list(kept.values())
