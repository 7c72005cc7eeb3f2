"""Which tensors that outlive a step (parameters, buffers, running values) stand for each other on the two sides."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from optrace import ops
from optrace.align.correspondence import Repair
from optrace.align.graph import Key
from optrace.align.index import Layout, transposition
from optrace.diagnose.compare import Comparison
from optrace.diagnose.forced import Forced
from optrace.trace.records import Call, TensorRef, tensors_in


class Pair(NamedTuple):
    """Base's tensor and how raw's is laid out with respect to it."""

    uid: int
    layout: Layout


class Pairs:
    """Learned from the steps that were compared; applied to those that follow."""

    def __init__(self) -> None:
        self.parameters: dict[int, Pair] = {}
        self._values: dict[Key, Key] = {}

    def uids(self) -> dict[int, int]:
        """Raw tensor -> base tensor."""
        return {raw: pair.uid for raw, pair in self.parameters.items()}

    def learn(self, forced: Forced) -> None:
        """Take over what one step's forward pass has shown."""
        votes = _by_use(forced)
        for ref in forced.raw.leaves:
            if ref.uid in self.parameters:
                continue
            known = {k[0]: k for k in forced.base_keys(ref.key)}
            chosen = next((u for u, _ in votes[ref.uid].most_common() if not known or u in known), None)
            if chosen is None:
                taken = {p.uid for p in self.parameters.values()}
                free = [u for u in known if u not in taken]
                chosen = free[0] if len(free) == 1 else next(iter(known), None)
            if chosen is None:
                continue
            layout = _layout(forced, ref, known.get(chosen), chosen)
            if layout is not None:
                self.parameters[ref.uid] = Pair(chosen, layout)
        for key in forced.raw.refs:
            found = forced.base_keys(key)
            if len(found) == 1:
                self._values[key] = next(iter(found))

    def apply(self, comparison: Comparison) -> None:
        """Start the step from base's parameters and base's running values, whatever raw's have become."""
        forced = comparison.forced
        theirs = {r.uid: r for r in forced.base.leaves}
        for ref in forced.raw.leaves:
            pair = self.parameters.get(ref.uid)
            base = theirs.get(pair.uid) if pair is not None else None
            layout = pair.layout if pair is not None else None
            if base is None and ref.key in self._values and self._values[ref.key] in forced.base.refs:
                base = forced.base.refs[self._values[ref.key]]
                layout = Layout(None, ref.shape)
            value = forced.base.trace.value(base) if base is not None else None
            if base is None or value is None or layout is None or value.size != ref.size:
                continue
            laid = layout.apply(value)
            own = forced.raw.trace.value(ref)
            forced.repairs[ref.key] = Repair(base.key, laid if own is None else laid.astype(own.dtype))
            forced.env[ref.key] = forced.repairs[ref.key].value
            forced.matches.pop(ref.key, None)


def _by_use(forced: Forced) -> dict[int, Counter[int]]:
    """For each raw leaf, how often calls that agree read it where base's read which leaf."""
    votes: dict[int, Counter[int]] = {r.uid: Counter() for r in forced.raw.leaves}
    leaves = {r.uid for r in forced.base.leaves}
    for node in forced.raw.nodes:
        mine = [r for r in _read(node.call) if r.uid in votes]
        if not mine:
            continue
        for call in (
            c for k in node.outputs for b in forced.base_keys(k) for c in forced.base.makers.get(b, ())
        ):
            theirs = [r for r in _read(call) if r.uid in leaves]
            if ops.same_job(call.api, node.call.api) and len(theirs) == len(mine):
                for a, b in zip(mine, theirs):
                    if a.size == b.size:
                        votes[a.uid][b.uid] += 1
                continue
            # The same result by another call (addmm for linear): its leaves are told by their values.
            for a in mine:
                equal = forced.base_keys(a.key)
                votes[a.uid].update({b.uid for b in theirs if b.key in equal})
    return votes


def _read(call: Call) -> list[TensorRef]:
    return tensors_in(call.positional) + tensors_in(call.keyword)


def _layout(forced: Forced, ref: TensorRef, key: Key | None, uid: int) -> Layout | None:
    match = next((m for m in forced.matches.get(ref.key, ()) if m.key == key), None)
    if match is not None:
        return match.layout
    base = next((r for r in forced.base.leaves if r.uid == uid), None)
    a = forced.base.trace.value(base) if base is not None else None
    b = forced.raw.trace.value(ref)
    if a is None or b is None or a.size != b.size:
        return None
    axes = transposition(a, b, ref.dtype)
    if a.shape == b.shape and axes is None:
        return Layout(None, b.shape)
    if axes is None and a.ndim == 2 and a.T.shape == b.shape:
        axes = (1, 0)
    return Layout(axes, b.shape)
