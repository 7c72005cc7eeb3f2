"""Differences that this run's results do not show: absorbed by what follows, or in unused weights."""

from __future__ import annotations

from typing import NamedTuple

from optrace import ops
from optrace.align.graph import Key, Node
from optrace.align.values import agree, difference
from optrace.diagnose.argument_causes import proven_arguments
from optrace.diagnose.explain import explain
from optrace.diagnose.findings import Cause
from optrace.diagnose.forced import Forced
from optrace.diagnose.rounding import same_function
from optrace.trace.records import Call, TensorRef, tensors_in

# A group that does by several calls what base does otherwise is short; a longer stretch that disagrees
# call by call was wrong all along, even if its end can't tell (dead units, saturation).
LONGEST_GROUP = 8


class Hidden(NamedTuple):
    """A raw call that differs from its base counterpart on equal inputs, without reaching an output."""

    node: Node
    raw_key: Key
    base: Call
    base_key: Key
    cause: Cause
    certain: bool


def hidden_calls(forced: Forced) -> list[Hidden]:
    """Calls whose inputs all agree with their counterpart's and whose result does not.

    ``certain`` where an argument was seen to make the difference, or where the disagreement lasts too
    long for a mere other way of computing the same; otherwise it is worth a warning.
    """
    found = []
    counterparts = _Readers(forced)
    for node in forced.raw.nodes:
        if not node.inputs or not all(forced.matched(k) for k in node.inputs):
            continue
        for key in node.outputs[:1]:
            if forced.matched(key) or key in forced.weak or not forced.raw.consumers.get(key):
                continue
            pair = counterparts.of(node, key)
            if pair is None or same_function(forced, node, key, *pair):
                continue
            proven = proven_arguments(forced, node, key, *pair)
            cause = explain(forced, node, key, *pair)
            found.append(Hidden(node, key, *pair, cause, proven or _stretch(forced, node) > LONGEST_GROUP))
    return found


class _Readers:
    """Base calls by the values they read."""

    def __init__(self, forced: Forced) -> None:
        self._forced = forced
        self._by_input: dict[Key, list[Call]] = {}
        for node in forced.base.nodes:
            for key in node.inputs:
                self._by_input.setdefault(key, []).append(node.call)

    def of(self, node: Node, raw_key: Key) -> tuple[Call, Key] | None:
        """The one base call of the same kind that reads just what ``node`` reads; ``None`` without any."""
        forced = self._forced
        wanted = [forced.base_keys(k) for k in node.inputs]
        shape = forced.raw.refs[raw_key].shape
        place = node.outputs.index(raw_key)
        for call in {c.id: c for b in wanted[0] for c in self._by_input.get(b, ())}.values():
            read = {r.key for r in tensors_in(call.positional) + tensors_in(call.keyword)}
            if not ops.same_job(node.call.api, call.api) or len(read) != len(wanted):
                continue
            made = tensors_in(call.outputs)
            if place < len(made) and made[place].shape == shape and all(read & w for w in wanted):
                return call, made[place].key
        return None


def _stretch(forced: Forced, node: Node) -> int:
    """How many calls in a row, from ``node`` on, make nothing that base makes."""
    reached = set(node.outputs)
    count = 1
    for later in forced.raw.nodes[node.index + 1 :]:
        if reached.isdisjoint(later.inputs):
            continue
        if any(not forced.matched(k) for k in later.outputs):
            count += 1
            reached.update(k for k in later.outputs if not forced.matched(k))
    return count


class WeightDifference(NamedTuple):
    node: Node
    base: Call
    parameter: TensorRef
    counterpart: TensorRef


def differing_weights(forced: Forced) -> list[WeightDifference]:
    """Parameters read by calls that agreed, yet unlike those their counterparts read."""
    found = []
    for node in forced.raw.nodes:
        mine = [
            r for r in tensors_in(node.call.positional) + tensors_in(node.call.keyword) if r.path is not None
        ]
        wrong = [r for r in mine if not forced.matched(r.key)]
        if not wrong:
            continue
        base = next((c for k in node.outputs for b in forced.base_keys(k) for c in forced.base.makers.get(b, ())
                     if c.parent == -1 and ops.same_job(c.api, node.call.api)), None)  # fmt: skip
        if base is None or any(k in forced.repairs for k in node.outputs):
            continue
        theirs = [r for r in tensors_in(base.positional) + tensors_in(base.keyword) if r.path is not None]
        if len(theirs) != len(mine):
            continue
        for ref, other in zip(mine, theirs):
            if ref in wrong and ref.size == other.size and _unlike(forced, ref, other):
                found.append(WeightDifference(node, base, ref, other))
    return found


def _unlike(forced: Forced, ref: TensorRef, other: TensorRef) -> bool:
    a, b = forced.base.trace.value(other), forced.raw.trace.value(ref)
    if a is None or b is None or a.ndim != b.ndim:
        return False
    candidates = [a, a.T] if a.ndim == 2 else [a]
    same = (c for c in candidates if c.shape == b.shape)
    return not any(agree(difference(c, b, ref.dtype), ref.dtype) for c in same)
