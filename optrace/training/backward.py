"""The backward pass of one step: raw's calls differentiated one by one on base's values and base's gradients.

What a call makes of base's own gradients it makes by itself, so no error hides the next. Only what
shows in a gradient that the program ends up with (a parameter's or an input's) is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optrace.align.graph import Key
from optrace.diagnose.forced import Forced
from optrace.diagnose.replay import Unreplayable
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.training.closeness import apart, limit, norm
from optrace.training.flow import Flow, Unit
from optrace.training.pairs import Pair
from optrace.training.vjp import FLOATS, Differentiator

# Without a float32 sum of random signs to hold against it, no gradient is told from rounding.
_NOISE = 3e-6


class Mismatch(NamedTuple):
    """A raw value that base's gradients do not lead to base's gradient at.

    ``arrived`` and ``left`` are raw's before and after the program's own hooks; ``wanted`` is base's.
    """

    key: Key
    base: Key
    arrived: np.ndarray | None
    left: np.ndarray | None
    wanted: np.ndarray | None
    parts: list[tuple[Call, np.ndarray | None]]


class Backward:
    """One step's backward pass through the matches of its forward pass."""

    def __init__(self, forced: Forced, base: Flow, raw: Flow, pairs: dict[int, Pair]) -> None:
        self.forced, self.base, self.raw = forced, base, raw
        self._pairs = pairs  # by raw parameter's uid
        self._mine = Differentiator(forced.raw.trace)
        self._theirs = Differentiator(forced.base.trace)
        self._pending: dict[Key, list[tuple[Call, np.ndarray | None]]] = {}
        self._unknown: set[Key] = set()
        self._settled: set[Key] = set()
        self._going: dict[Key, np.ndarray] = {}
        self._extra = {r for c in forced.base.extra for r in _made(c)}

    # -- what the program ends up with -----------------------------------------------------------

    def ends(self) -> list[TensorRef]:
        """Raw's leaves that take part in differentiation on either side, in the order of their first use."""
        found: dict[Key, TensorRef] = {}
        for unit in self.raw.units:
            for ref in tensors_in(unit.call.positional) + tensors_in(unit.call.keyword):
                maker = self.raw.makers.get(ref.key)
                if ref.key in found or (maker is not None and maker.inputs):
                    continue
                frozen = ref.path is not None and any(
                    self.base.gradient(b) is not None for b in self._counterparts(ref.key)
                )
                if frozen or (ref.requires_grad and ref.dtype in FLOATS):
                    found[ref.key] = ref
        return list(found.values())

    def deviating(self, allowed: float) -> list[TensorRef]:
        """The leaves whose recorded gradients differ between the sides."""
        largest = max((norm(g) for g in self.base.arriving.values()), default=0.0)
        found = []
        for ref in self.ends():
            mine = self.raw.gradient(ref.key)
            candidates = [self._base_gradient(b, mine, ref.key) for b in self._counterparts(ref.key)]
            if not candidates:
                continue
            gap, wanted = min(((apart(w, mine), w) for w in candidates), key=lambda p: p[0])
            dtype = max(allowed, limit(ref.dtype))
            if gap > dtype and not max(norm(mine), norm(wanted)) <= 1e-6 * largest:
                found.append(ref)
        return found

    def _counterparts(self, key: Key) -> list[Key]:
        partner = self._pairs.get(key[0])
        keys = [k for k in self.forced.base_keys(key) if k not in self._extra]
        own = [k for k in keys if partner is not None and k[0] == partner.uid]
        return own or keys

    def _base_gradient(self, base: Key, like: np.ndarray | None, raw: Key) -> np.ndarray | None:
        """Base's gradient at ``base``, laid out as raw's value ``raw``."""
        return self._laid_out(self.base.gradient(base), base, raw)

    def _laid_out(self, gradient: np.ndarray | None, base: Key, raw: Key) -> np.ndarray | None:
        if gradient is None:
            return None
        match = next((m for m in self.forced.matches.get(raw, ()) if m.key == base), None)
        pair = self._pairs.get(raw[0])
        if match is not None:
            return match.layout.apply(gradient)
        if pair is not None and pair.uid == base[0]:
            return pair.layout.apply(gradient)
        return _fit(gradient, self.forced.raw.refs[raw].shape)

    # -- the pass --------------------------------------------------------------------------------

    def run(self) -> list[Mismatch]:
        """Every place where trouble begins, in backward order."""
        found: list[Mismatch] = []
        for key, seeds in self.raw.seeds.items():
            self._pending.setdefault(key, []).extend(seeds)
        for unit in reversed(self.raw.units):
            for ref in unit.outputs:
                self._settle(ref, found)
            self._pass_on(unit)
        for ref in self.ends():
            self._settle(ref, found)
        return found

    def _settle(self, ref: TensorRef, found: list[Mismatch]) -> None:
        """All that reaches the value is known: compare it, and go on with base's."""
        key = ref.key
        if key in self._settled:
            return
        self._settled.add(key)
        parts = self._pending.get(key, [])
        arrived = _sum(parts)
        maker = self.raw.makers.get(key)
        is_end = maker is None or not maker.inputs
        bases = self._counterparts(key) if is_end or key not in self.forced.weak else []
        observed = self.raw.gradient(key)
        if key in self._unknown or not bases:
            # What can't be computed again is taken as it was, where base has nothing to put in its place.
            wanted = self._base_gradient(bases[0], None, key) if bases else None
            left = (
                wanted
                if wanted is not None
                else observed
                if key in self._unknown
                else self._hooked(key, arrived)
            )
            self._go(key, left)
            return
        left = self._hooked(key, arrived)
        options = [(b, self._base_gradient(b, left, key)) for b in bases]
        agreeing = next((o for o in options if apart(o[1], left) <= limit(ref.dtype)), None)
        if agreeing is None and len(options) > 1:
            together = _sum([(None, w) for _, w in options if w is not None])
            if apart(together, left) <= limit(ref.dtype):
                self._go(key, together)
                return
        if agreeing is None and self._is_noise(key, options[0][1], left):
            agreeing = options[0]
        if agreeing is None:
            chosen = max(options, key=lambda o: (self._arrives_alike(o[0], key, arrived), norm(o[1])))
            found.append(Mismatch(key, chosen[0], arrived, left, chosen[1], parts))
            agreeing = chosen
        self._go(key, agreeing[1])

    def _arrives_alike(self, base: Key, key: Key, arrived: np.ndarray | None) -> bool:
        """Whether the two sides part only in the program's hooks on the value."""
        if key not in self.raw.hooks and base not in self.base.hooks:
            return False
        theirs = self._laid_out(self.base.arriving.get(base), base, key)
        return apart(theirs, arrived) <= limit(self.forced.raw.refs[key].dtype)

    def _go(self, key: Key, gradient: np.ndarray | None) -> None:
        if gradient is not None:
            self._going[key] = gradient

    def _pass_on(self, unit: Unit) -> None:
        reached = {r.key: self._going[r.key] for r in unit.outputs if r.key in self._going}
        try:
            given = self._mine.gradients(unit.call, self.forced.env, reached)
        except Unreplayable:
            if reached:
                self._unknown.update(r.key for r in unit.inputs)
            return
        for ref in unit.inputs:
            self._pending.setdefault(ref.key, []).append((unit.call, given.get(ref.key)))

    def _hooked(self, key: Key, gradient: np.ndarray | None) -> np.ndarray | None:
        """The gradient after the program's hooks on the raw value."""
        for call in self.raw.hooks.get(key, ()):
            if gradient is not None:
                gradient = _through(call, gradient)
        return gradient

    def _is_noise(self, key: Key, wanted: np.ndarray | None, left: np.ndarray | None) -> bool:
        """Whether the difference is rounding in sums that cancel out."""
        if wanted is None and left is None:
            return True
        some = left if wanted is None else wanted
        assert some is not None
        a = np.zeros(some.shape) if wanted is None else wanted
        b = np.zeros(some.shape) if left is None else left
        if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
            return False
        rng = np.random.default_rng(0)
        size = 0.0
        for unit in self.raw.readers.get(key, ()):
            signed = {
                r.key: self._going[r.key] * rng.choice([-1, 1], self._going[r.key].shape).astype("float32")
                for r in unit.outputs
                if r.key in self._going
            }
            try:
                size += norm(self._mine.gradients(unit.call, self.forced.env, signed).get(key))
            except Unreplayable:
                return True
        return (
            norm(a.astype("float64") - b) <= max(_NOISE, limit(self.forced.raw.refs[key].dtype) / 30) * size
        )

    # -- base's parts ----------------------------------------------------------------------------

    def base_parts(self, mismatch: Mismatch) -> list[tuple[Call, np.ndarray | None]]:
        """What each reader of base's value passed back to it, in raw's layout."""
        found = [
            (c, self._laid_out(g, mismatch.base, mismatch.key))
            for c, g in self.base.seeds.get(mismatch.base, ())
        ]
        for unit in self.base.readers.get(mismatch.base, ()):
            reached = {r.key: g for r in unit.outputs if (g := self.base.gradient(r.key)) is not None}
            try:
                given = self._theirs.gradients(unit.call, {}, reached).get(mismatch.base)
            except Unreplayable:
                continue
            found.append((unit.call, self._laid_out(given, mismatch.base, mismatch.key)))
        return found


def _made(call: Call) -> list[Key]:
    from optrace.align.graph import made_by

    return [r.key for r in made_by(call)]


def _sum(parts: Sequence[tuple[Call | None, np.ndarray | None]]) -> np.ndarray | None:
    total: np.ndarray | None = None
    for _, part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def _fit(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter's gradient where the other side may keep the parameter transposed."""
    if gradient.shape == shape:
        return gradient
    if gradient.ndim == 2 and gradient.T.shape == shape:
        return gradient.T
    return gradient.reshape(shape) if gradient.size == int(np.prod(shape)) else gradient


def _through(call: Call, gradient: np.ndarray) -> np.ndarray:
    """What a hook of the program makes of a gradient; the gradient itself when it can't be called again."""
    from optrace import frameworks

    framework = frameworks.get(call.framework)
    hook = call.positional[1] if len(call.positional) > 1 else call.keyword.get("hook")
    function = getattr(hook, "obj", None)
    if not callable(function):
        return gradient
    try:
        with framework.no_grad():
            result = function(framework.from_numpy(gradient))
    except Exception:
        return gradient
    return framework.to_numpy(result) if framework.is_tensor(result) else gradient
