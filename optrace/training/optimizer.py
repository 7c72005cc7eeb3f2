"""The optimizer's step: from equal parameters, equal gradients and equal state, is the update equal?

Judged element by element, and only where both sides started from the same numbers: what earlier
differences and rounding do to the rest is no finding of this step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from optrace.align.values import as_float, difference, epsilon
from optrace.diagnose.findings import Error, ErrorFigures, Finding, Warn
from optrace.trace.records import Call, TensorRef
from optrace.trace.training import OptimizerStep, Update
from optrace.training.pairs import Pairs
from optrace.training.settings import UNLIKE, SettingDifference, likeliest, setting_differences
from optrace.training.steps import StepTrace

# Inputs of the update count as equal, and the updates as different, beyond these shares of their size.
_EQUAL, _DIFFERENT = 1e-4, 1e-2
# Where a setting differs, its effect is to be expected and may be small: this much and so many times the inputs' difference.
_SLIGHT, _GAIN = 2e-4, 30.0
# Where terms cancel, a hundredfold of the inputs' difference is seen in few elements; a setting shows in many.
_FEW = 0.03


class _Side(NamedTuple):
    """One parameter's step in float64, in raw's layout."""

    before: np.ndarray
    after: np.ndarray
    gradient: np.ndarray | None
    clipped: np.ndarray | None
    state: dict[str, np.ndarray]
    state_after: dict[str, np.ndarray]

    @property
    def change(self) -> np.ndarray:
        return self.after - self.before


class Steps:
    """Compares the optimizer steps of one training step."""

    def __init__(self, base: StepTrace, raw: StepTrace, pairs: Pairs) -> None:
        self.base, self.raw, self.pairs = base, raw, pairs
        self.warnings: list[Warn] = []
        self._norms = 0.0, 0.0

    def run(self, reached: dict[int, tuple[np.ndarray | None, np.ndarray | None]]) -> list[Finding]:
        """``reached``: for each raw parameter, base's and raw's gradient as the backward pass left it."""
        theirs, mine = self.base.optimizer_step, self.raw.optimizer_step
        if theirs is None or mine is None:
            return []
        known = {u.uid: u for u in theirs.updates}
        uids = self.pairs.uids()
        causes: dict[tuple[str, str | None], Finding] = {}
        self._norms = _norm(g for g, _ in reached.values()), _norm(g for _, g in reached.values())
        scales = _clip_scale(self.base, theirs), _clip_scale(self.raw, mine)
        for update in mine.updates:
            other = known.get(uids.get(update.uid, 0))
            if other is None:
                continue
            layout = self.pairs.parameters[update.uid].layout
            a = _side(self.base, other, scales[0], layout.apply)
            b = _side(self.raw, update, scales[1], lambda x: x)
            if a is None or b is None or a.before.shape != b.before.shape:
                continue
            found = self._pair(theirs, mine, other, update, a, b, reached.get(update.uid))
            if found is not None:
                causes.setdefault((found.kind, found.argument), found)
        if not causes:
            self._settings(theirs, mine, known, uids)
        return [*causes.values(), *self._left_out(theirs, mine, uids)]

    def _pair(
        self,
        theirs: OptimizerStep,
        mine: OptimizerStep,
        other: Update,
        update: Update,
        a: _Side,
        b: _Side,
        reached: tuple[np.ndarray | None, np.ndarray | None] | None,
    ) -> Finding | None:
        base, raw = self.base.whole.calls[theirs.call], self.raw.whole.calls[mine.call]
        if a.gradient is None and b.gradient is not None and not b.gradient.any() and np.any(b.change):
            text = (
                f"{raw.api} runs with gradients that were just cleared: base's are None and nothing is updated, "
                f"raw's are zeros and {_path(update)} is updated all the same (weight decay, momentum)"
            )
            return _finding(
                "order", text, base, raw, update, a, b, "clear the gradients before the backward pass"
            )
        if (a.gradient is None) != (b.gradient is None):
            return None  # a matter of the backward pass
        same = _close(a.before, b.before) & _all_close(a.state, b.state)
        if a.clipped is not None and b.clipped is not None:
            equal = _close(a.clipped, b.clipped)
            if reached is not None and not equal.all():
                found = self._between(base, raw, update, a, b, reached)
                if found is not None:
                    return found
            same &= equal
        rounding = 4 * epsilon(update.before.dtype) * (np.abs(a.before) + np.abs(a.after))
        settings = setting_differences(other.settings, update.settings, other.names, update.names)
        share = np.clip(_GAIN * _input_gap(a, b), _SLIGHT, _DIFFERENT) if settings else np.asarray(_DIFFERENT)
        wrong = same & (np.abs(a.change - b.change) > share * np.abs(a.change) + rounding)
        # What the optimizer remembers may part before the parameters do.
        parted = {
            name: same & ~_close(kept, b.state_after[name], share)
            for name, kept in a.state_after.items()
            if name in b.state_after and b.state_after[name].shape == kept.shape
        }
        least = max(_FEW * int(same.sum()), 2 if same.sum() > 1 else 1)
        names = {name for name, elements in parted.items() if elements.sum() >= least}
        if wrong.sum() < least and not names:
            return None
        return self._explain(base, raw, other, update, a, b, likeliest(settings, names))

    def _between(
        self,
        base: Call,
        raw: Call,
        update: Update,
        a: _Side,
        b: _Side,
        reached: tuple[np.ndarray | None, np.ndarray | None],
    ) -> Finding | None:
        """The backward passes agree, the gradients in the optimizer's hands do not: clipped, scaled or not cleared."""
        theirs, mine = reached
        if theirs is None or mine is None or theirs.shape != mine.shape or theirs.shape != a.before.shape:
            return None
        if not _close(as_float(theirs), as_float(mine)).all():
            return None
        assert a.clipped is not None and b.clipped is not None
        clips = update.settings.get("clip") if update.settings else None
        factors = _factor(as_float(theirs), a.clipped), _factor(as_float(mine), b.clipped)
        if None in factors:
            if factors[0] is not None and not clips:
                text = f"{raw.api}: the gradient of {_path(update)} holds more than this step's backward pass gave it"
                return _finding(
                    "missing_op",
                    text,
                    base,
                    raw,
                    update,
                    a,
                    b,
                    "clear the gradients before every backward pass",
                )
            text = f"{raw.api}: the gradient of {_path(update)} is changed in another way than in base before the update"
        elif factors[0] != factors[1] and not self._same_bound(factors[0], factors[1]):
            how = f"{clips[0]}({clips[1]:g})" if clips else "nothing" if factors[1] == 1 else "a factor"
            text = (
                f"{raw.api}: before the update the gradient of {_path(update)} is scaled by {factors[1]:.4g} ({how}), "
                f"base's by {factors[0]:.4g}"
            )
        else:
            return None
        return _finding("argument", text, base, raw, update, a, b, argument="grad_clip")

    def _same_bound(self, base: float | None, raw: float | None) -> bool:
        """Whether both clip to one global norm; the norms themselves drift apart over steps."""
        if base is None or raw is None or not (base < 1 and raw < 1):
            return False
        bounds = base * self._norms[0], raw * self._norms[1]
        return abs(bounds[0] - bounds[1]) <= 5e-3 * max(bounds)

    def _explain(
        self,
        base: Call,
        raw: Call,
        other: Update,
        update: Update,
        a: _Side,
        b: _Side,
        found: list[SettingDifference],
    ) -> Finding:
        where = f"given equal parameters and gradients, the update of {_path(update)} differs"
        if found:
            first = found[0]
            text = f"{raw.api}: {where}: {first}"
            if first.name == "decoupled":
                forms = "decoupled from", "added to"
                text = (
                    f"{raw.api}: {where}: base's weight decay is {forms[not first.base]} the gradient, "
                    f"raw's is {forms[not first.raw]} it"
                )
            if len(found) > 1:
                text += "; also " + ", ".join(str(d) for d in found[1:])
            return _finding("argument", text, base, raw, update, a, b, argument=first.argument)
        rule = other.settings.get("rule") or update.settings.get("rule")
        known = UNLIKE.get(str(rule))
        if known is not None and other.settings.get("rule") == update.settings.get("rule"):
            return _finding(
                "argument", f"{raw.api}: {where}: {known[1]}", base, raw, update, a, b, argument=known[0]
            )
        return _finding("value", f"{raw.api}: {where} from that of {base.api}", base, raw, update, a, b)

    def _settings(
        self, theirs: OptimizerStep, mine: OptimizerStep, known: dict[int, Update], uids: dict[int, int]
    ) -> None:
        """Settings that differ although the updates agree are worth a word."""
        seen: set[str] = set()
        for update in mine.updates:
            other = known.get(uids.get(update.uid, 0))
            if other is None:
                continue
            for d in setting_differences(other.settings, update.settings, other.names, update.names):
                if d.name not in seen:
                    seen.add(d.name)
                    base, raw = self.base.whole.calls[theirs.call], self.raw.whole.calls[mine.call]
                    text = f"{raw.api}: {d}; the updates agree in this run"
                    self.warnings.append(Warn(text, base, raw, d.argument))

    def _left_out(self, theirs: OptimizerStep, mine: OptimizerStep, uids: dict[int, int]) -> list[Finding]:
        """Parameters that only one side's optimizer has."""
        own = {u.uid for u in mine.updates}
        back = {b: r for r, b in uids.items()}
        base, raw = self.base.whole.calls[theirs.call], self.raw.whole.calls[mine.call]
        for update in theirs.updates:
            if update.gradient is None or update.uid not in back or back[update.uid] in own:
                continue
            ref = next((r for r in _leaves(self.raw) if r.uid == back[update.uid]), None)
            if ref is None or ref.path is None or not ref.requires_grad:
                continue
            text = f"{raw.api}: parameter {ref.path} is not among the parameters that the optimizer updates; base's is"
            return [
                Finding("argument", text, "optimizer", base, raw, "parameters", ref.path, step=self.raw.step)
            ]
        given = {u.uid for u in theirs.updates}
        learning = {r.uid for r in _leaves(self.base) if r.requires_grad}
        for update in mine.updates:
            other = uids.get(update.uid)
            if update.gradient is None or other not in learning or other in given:
                continue
            text = f"{raw.api}: parameter {_path(update)} is updated; base's optimizer does not have it"
            return [
                Finding(
                    "argument", text, "optimizer", base, raw, "parameters", update.path, step=self.raw.step
                )
            ]
        return []


def _norm(gradients: Iterable[np.ndarray | None]) -> float:
    return float(np.sqrt(sum(float(np.sum(as_float(g) ** 2)) for g in gradients if g is not None)))


def _leaves(step: StepTrace) -> list[TensorRef]:
    from optrace.align.graph import Graph

    return Graph(step).leaves


def _path(update: Update) -> str:
    return update.path or "a parameter"


def _finding(
    kind: str,
    text: str,
    base: Call,
    raw: Call,
    update: Update,
    a: _Side,
    b: _Side,
    suggestion: str = "",
    argument: str | None = None,
) -> Finding:
    figures = ErrorFigures(*difference(a.change, b.change, "float32")[:5])
    return Finding(
        kind,  # type: ignore[arg-type]
        text,
        "optimizer",
        base,
        raw,
        argument,
        update.path,
        Error(figures, None),
        suggestion=suggestion,
        step=raw.step,
    )


def _close(a: np.ndarray, b: np.ndarray, share: float | np.ndarray = _EQUAL) -> np.ndarray:
    size = np.maximum(np.abs(a), np.abs(b))
    return (np.abs(a - b) <= share * size) | (size == 0)


def _input_gap(a: _Side, b: _Side) -> np.ndarray:
    """How far the numbers that an update starts from are apart, relative, the worst of them for each element."""
    pairs = [(a.before, b.before), (a.clipped, b.clipped), *((v, b.state.get(n)) for n, v in a.state.items())]
    gap = np.zeros(a.before.shape)
    for x, y in pairs:
        if x is not None and y is not None and x.shape == y.shape == gap.shape:
            size = np.maximum(np.abs(x), np.abs(y))
            gap = np.maximum(gap, np.abs(x - y) / np.where(size > 0, size, 1.0))
    return gap


def _all_close(a: dict[str, np.ndarray], b: dict[str, np.ndarray], share: float = _EQUAL) -> np.ndarray:
    found = np.ones((), bool)
    for name, value in a.items():
        other = b.get(name)
        if other is not None and other.shape == value.shape:
            found = found & _close(value, other, share)
    return found


def _side(
    step: StepTrace, update: Update, scale: float, lay: Callable[[np.ndarray], np.ndarray]
) -> _Side | None:
    before = step.value(update.before)
    after = step.value(update.after) if update.after is not None else None
    if before is None or after is None:
        return None
    gradient = step.value(update.gradient) if update.gradient is not None else None

    def laid(array: np.ndarray) -> np.ndarray:
        return lay(as_float(array))

    def kept(refs: dict[str, TensorRef]) -> dict[str, np.ndarray]:
        values = {name: step.value(ref) for name, ref in refs.items()}
        return {n: laid(v) for n, v in values.items() if v is not None and v.shape == before.shape}

    plain = None if gradient is None else laid(gradient)
    clipped = _clip(update, plain, scale)
    return _Side(laid(before), laid(after), plain, clipped, kept(update.state), kept(update.state_after))


def _clip_scale(step: StepTrace, taken: OptimizerStep) -> float:
    """What a clip by global norm inside the optimizer multiplies every gradient with."""
    clip = next((u.settings.get("clip") for u in taken.updates if u.settings.get("clip")), None)
    if clip is None or clip[0] != "ClipGradByGlobalNorm":
        return 1.0
    values = [
        step.value(u.gradient) for u in taken.updates if u.gradient is not None and u.settings.get("clip")
    ]
    total = float(np.sqrt(sum(float(np.sum(as_float(v) ** 2)) for v in values if v is not None)))
    return float(clip[1] / max(total, clip[1])) if clip[1] else 1.0


def _clip(update: Update, gradient: np.ndarray | None, scale: float) -> np.ndarray | None:
    clip = update.settings.get("clip")
    if gradient is None or clip is None:
        return gradient
    if clip[0] == "ClipGradByNorm":
        size = float(np.linalg.norm(gradient.reshape(-1)))
        return gradient * (clip[1] / max(size, clip[1])) if clip[1] else gradient
    if clip[0] == "ClipGradByValue":
        return np.clip(gradient, -clip[1], clip[1])
    return gradient * scale


def _factor(before: np.ndarray, after: np.ndarray) -> float | None:
    """By what a gradient was multiplied; ``None`` when it was changed otherwise."""
    size = float(np.sum(before * before))
    if size == 0 or before.shape != after.shape:
        return None
    factor = float(np.sum(before * after)) / size
    if np.linalg.norm((after - factor * before).reshape(-1)) > 1e-3 * np.linalg.norm(after.reshape(-1)):
        return None
    return round(factor, 4) if abs(factor - 1) > 2e-4 else 1.0
