"""Where a raw call went wrong: which base call it should have been, tried out on what follows."""

from __future__ import annotations

from collections import ChainMap
from typing import Literal, NamedTuple

import numpy as np

from optrace.align.correspondence import Repair
from optrace.align.graph import Key, Node, made_by
from optrace.align.index import is_weak
from optrace.diagnose.arguments import moves
from optrace.diagnose.forced import Forced
from optrace.diagnose.replay import Unreplayable
from optrace.ops import same_job
from optrace.trace.records import Call, TensorRef, tensors_in

How = Literal["same call", "same kind", "other call", "extra"]

# How many of the calls that follow are looked at to judge a hypothesis, and how many hypotheses.
_AHEAD = 20
_MOST = 10
# Raw calls behind the first unaccounted one that may be the point where the sides meet again.
_DEEPEST = 10


class Hypothesis(NamedTuple):
    """Raw value ``raw_key`` (made by ``node``) should have been ``base_key`` (made by ``base``)."""

    node: Node
    raw_key: Key
    base: Call | None
    base_key: Key
    how: How


class Verdict(NamedTuple):
    """Of ``looked_at`` computing calls that follow, ``agreed`` agree under the hypothesis, ``before`` without it.

    ``met``: the first or the last of them agrees, so the two sides have met again.
    """

    hypothesis: Hypothesis
    agreed: int
    looked_at: int
    before: int = 0
    met: bool = False

    @property
    def holds(self) -> bool:
        """Whether what follows bears the hypothesis out."""
        return self.agreed > self.before and (self.share >= 0.3 or self.met)

    @property
    def share(self) -> float:
        return self.agreed / self.looked_at if self.looked_at else 0.5


class Repairable(NamedTuple):
    """The best repair found from one root, the raw calls it spans, and whether what follows bears it out."""

    verdict: Verdict | None
    region: list[Node]
    sure: bool


def propose(forced: Forced, node: Node, claimed: frozenset[int]) -> list[Hypothesis]:
    """Base values that ``node``'s main output may stand for, the likeliest first."""
    raw_key = main_output(forced, node)
    if raw_key is None:
        return []
    raw_ref = forced.raw.refs[raw_key]
    read = frozenset().union(*(forced.base_keys(k) for k in node.inputs))
    place = _place(forced, node)
    scored: list[tuple[float, Hypothesis]] = []
    for call in forced.base.calls:
        if call.id in claimed or call.error is not None or call.outputs is None:
            continue
        made = tensors_in(call.outputs) or made_by(call)
        if not made:
            continue
        ref = _corresponding(forced, node, raw_key, made)
        same = same_job(node.call.api, call.api)
        shared = len(read.intersection(r.key for r in tensors_in(call.positional) + tensors_in(call.keyword)))
        near = abs(forced.base.place(call) - place)
        shape = ref.shape == raw_ref.shape
        if same and shared:
            score, how = 4.0 + shared + shape, "same call"
        elif same and near < 200:
            score, how = (
                2.0 + shape + (call.module == node.call.module and call.module is not None),
                "same kind",
            )
        elif shape and (shared or near < 12):
            score, how = 1.0 + 0.5 * shared, "other call"
        else:
            continue
        if how != "same call" and not shape and not same:
            continue
        scored.append((score - min(near, 500) / 500, Hypothesis(node, raw_key, call, ref.key, how)))  # type: ignore[arg-type]
    scored.sort(key=lambda s: -s[0])
    found = [h for _, h in scored[:_MOST]]
    for key in node.inputs:
        for base_key in sorted(forced.base_keys(key)):
            if forced.base.refs[base_key].shape == raw_ref.shape and not forced.index.weak(base_key):
                found.append(Hypothesis(node, raw_key, None, base_key, "extra"))
                break
    return found


def main_output(forced: Forced, node: Node) -> Key | None:
    """The output whose value is to be mended: the first unmatched one that somebody reads."""
    unmatched = [k for k in node.outputs if not forced.matched(k)]
    for key in unmatched:
        if forced.raw.consumers.get(key):
            return key
    return unmatched[0] if unmatched else None


def _corresponding(forced: Forced, node: Node, raw_key: Key, made: list[TensorRef]) -> TensorRef:
    """Of a base call's outputs the one at the raw output's place."""
    place = node.outputs.index(raw_key)
    return made[place] if place < len(made) else made[0]


def _place(forced: Forced, node: Node) -> int:
    """About where in base's trace the counterpart of ``node`` stands."""
    places = [
        forced.base.place(forced.base.makers[b][0])
        for k in node.inputs
        for b in forced.base_keys(k)
        if b in forced.base.makers and not forced.index.weak(b)
    ]
    if places:
        return max(places)
    for earlier in reversed(forced.raw.nodes[: node.index]):
        for key in earlier.outputs:
            for b in forced.base_keys(key):
                if b in forced.base.makers and not forced.index.weak(b):
                    return forced.base.place(forced.base.makers[b][0])
    return 0


def as_raw(forced: Forced, hypothesis: Hypothesis) -> np.ndarray | None:
    """Base's value in the raw value's dtype."""
    base = forced.base.trace.value(forced.base.refs[hypothesis.base_key])
    own = forced.own.get(hypothesis.raw_key)
    if base is None:
        return None
    return base if own is None or own.dtype == base.dtype else base.astype(own.dtype)


def judge(forced: Forced, hypothesis: Hypothesis) -> Verdict:
    """Feed base's value to what follows and count how much of it then agrees.

    ``forced`` is left as it was.
    """
    value = as_raw(forced, hypothesis)
    if value is None:
        return Verdict(hypothesis, 0, 1)
    saved = forced.env, forced.matches, forced.repairs, forced.own, forced.unreplayable
    forced.env, forced.matches = saved[0].over(), dict(saved[1])
    forced.repairs, forced.own, forced.unreplayable = dict(saved[2]), ChainMap({}, saved[3]), dict(saved[4])
    forced.repairs[hypothesis.raw_key] = Repair(hypothesis.base_key, value)
    forced.env[hypothesis.raw_key] = value
    forced.matches.pop(hypothesis.raw_key, None)
    agreed = looked_at = before = 0
    first = last = False
    try:
        dependent = {hypothesis.raw_key}
        for node in forced.raw.nodes[hypothesis.node.index + 1 :]:
            if dependent.isdisjoint(node.inputs):
                continue
            dependent.update(node.outputs)
            try:
                made = forced.replayer.run(node.call, forced.env)
            except Unreplayable:
                looked_at += 1
                continue
            for key in node.outputs:
                forced._made(node, key, made.get(key))
            counted = [k for k in node.outputs if k in made and not is_weak(made[k])]
            if counted and not moves(node.call):
                looked_at += 1
                last = any(forced.matched(k) for k in counted)
                first = first or (last and looked_at == 1)
                agreed += last
                before += any(k in saved[2] or saved[1].get(k) for k in counted)
            if looked_at >= _AHEAD:
                break
    finally:
        forced.env, forced.matches, forced.repairs, forced.own, forced.unreplayable = saved
    return Verdict(hypothesis, agreed, looked_at, before, first or last)


def best(forced: Forced, first: Node, claimed: frozenset[int]) -> Repairable:
    """The repair to make for the trouble that starts at ``first``, and the raw calls it spans."""
    region = [first]
    fallback: Verdict | None = None
    held: Repairable | None = None
    node: Node | None = first
    tried = 0
    reached = set(first.outputs)
    while node is not None and tried < _DEEPEST:
        tried += 1
        verdicts = [judge(forced, h) for h in propose(forced, node, claimed)]
        good = [v for v in verdicts if v.holds]
        if good:
            top = max(v.share for v in good)
            # The order of proposal decides among those that do about as well.
            chosen = next(v for v in good if v.share >= top - 0.15)
            # Another shape is believed of a computing call that all the rest agrees with, not of a mere move.
            computes = not moves(node.call)
            if _same_shape(forced, chosen.hypothesis) or (computes and chosen.share >= 0.8):
                return Repairable(chosen, region, True)
            held = held or Repairable(chosen, list(region), False)
        exact = next((v for v in verdicts if _reads_alike(forced, v.hypothesis)), None)
        if exact is not None and node is first:
            # The same kind of call on the same values, with another result: whatever follows, it is at fault.
            return Repairable(exact, region, True)
        if fallback is None:
            likely = [v for v in verdicts if v.hypothesis.how in ("same call", "same kind")]
            # With nothing behind it to bear a repair out, the call that reads the same values will do.
            alike = [v for v in verdicts if v.looked_at == 0 and v.hypothesis.how == "other call"]
            fallback = next(iter(likely or alike), None)
        node = _next_unmatched(forced, node, reached)
        if node is not None:
            region.append(node)
            reached.update(node.outputs)
    if held is not None:
        return held
    if fallback is not None:
        return Repairable(fallback, [first], False)
    return Repairable(None, [first], False)


def _reads_alike(forced: Forced, h: Hypothesis) -> bool:
    """Whether the two calls do the same job on the same values and give results of one shape."""
    if h.how != "same call" or h.base is None or not _same_shape(forced, h):
        return False
    theirs = {r.key for r in tensors_in(h.base.positional) + tensors_in(h.base.keyword)}
    mine = [forced.base_keys(k) for k in h.node.inputs]
    return len(theirs) == len(mine) and all(theirs & keys for keys in mine)


def _same_shape(forced: Forced, h: Hypothesis) -> bool:
    return forced.base.refs[h.base_key].shape == forced.raw.refs[h.raw_key].shape


def _next_unmatched(forced: Forced, node: Node, reached: set[Key]) -> Node | None:
    for later in forced.raw.nodes[node.index + 1 :]:
        if not reached.isdisjoint(later.inputs) and any(not forced.matched(k) for k in later.outputs):
            return later
    return None
