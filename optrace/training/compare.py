"""Two traces of training, compared step by step and stage by stage."""

from __future__ import annotations

import numpy as np

from optrace.align.graph import Key, made_by
from optrace.diagnose.compare import Comparison
from optrace.diagnose.findings import Evidence, Finding, Stage, Warn
from optrace.diagnose.forced import Forced
from optrace.diagnose.merge import merged
from optrace.errors import ComparisonError
from optrace.trace.model import Trace
from optrace.trace.recorder import BACKWARD
from optrace.training.backward import Backward, Mismatch
from optrace.training.blame import blame, rescaled
from optrace.training.buffers import Buffers
from optrace.training.closeness import apart, limit
from optrace.training.flow import Flow
from optrace.training.optimizer import Steps
from optrace.training.pairs import Pairs
from optrace.training.steps import StepTrace, computes, cut

# Recorded gradients of parameters that are farther apart (relative) are looked into: in the first step, and
# later, when parameters have begun to drift by rounding.
_FIRST, _LATER = 1e-4, 1e-2
# The same where one side computes in half precision.
_ROUNDED = 0.1


class TrainingComparison:
    """Findings of all steps, each step judged from base's state at its start."""

    def __init__(self, base: Trace, raw: Trace, rtol: float | None = None, atol: float | None = None) -> None:
        self.base, self.raw = base, raw
        self._tolerances = rtol, atol
        self._pairs = Pairs()
        self._buffers = Buffers(base, raw)
        self.findings: list[Finding] = []
        self.warnings: list[Warn] = []
        self.evidence = Evidence()
        self.forced: Forced | None = None

    def run(self) -> tuple[list[Finding], list[Warn], Evidence]:
        theirs = [s for s in cut(self.base) if computes(s)]
        mine = [s for s in cut(self.raw) if computes(s)]
        if not theirs or not mine:
            side = "base" if not theirs else "raw"
            raise ComparisonError(f"the {side} trace holds no framework call that could be compared")
        for number, (base, raw) in enumerate(zip(theirs, mine)):
            if not self._step(base, raw, number):
                break
        self._counts()
        self.findings = _once(merged(self.findings))
        self.warnings.extend(self._buffers.warnings)
        named = {f.argument for f in self.findings if f.stage == "optimizer"}
        kept = [
            w for w in self.warnings if not (w.raw and w.raw.phase == "optimizer" and w.argument in named)
        ]
        return self.findings, _distinct(kept), self.evidence

    # -- one step --------------------------------------------------------------------------------

    def _step(self, base: StepTrace, raw: StepTrace, number: int) -> bool:
        """Compare one step; false when the rest can't be compared."""
        comparison = Comparison(base, raw, *self._tolerances)
        self._pairs.apply(comparison)
        try:
            findings, warnings, evidence = comparison.run()
        except ComparisonError as error:
            if number == 0:
                raise
            text = f"step {number}: {error}"
            self.findings.append(Finding("input", text, step=number))
            return False
        self.forced = self.forced or comparison.forced
        self._pairs.learn(comparison.forced)
        for finding in findings:
            finding.stage = _stage(finding, raw)
        _add(self.evidence, evidence)
        self.warnings.extend(warnings)
        backward = Backward(
            comparison.forced, Flow(base, comparison.base), Flow(raw, comparison.raw), self._pairs.parameters
        )
        for finding in findings:
            rescaled(finding, backward)
        found = [*findings, *self._backward(backward, findings, number)]
        steps = Steps(base, raw, self._pairs)
        found += steps.run(self._reached(backward))
        found += self._buffers.run(comparison.forced, raw.step)
        for finding in found:
            finding.step = raw.step
        self.findings.extend(found)
        self.warnings.extend(steps.warnings)
        return True

    def _backward(self, backward: Backward, forward: list[Finding], number: int) -> list[Finding]:
        """Findings of the backward pass that do not follow from those of the forward pass."""
        if not (backward.base.arriving and backward.raw.arriving):
            return []
        allowed = _FIRST if number == 0 else _LATER
        if any(f.kind == "dtype" for f in forward):
            allowed = _ROUNDED
        deviating = backward.deviating(allowed)
        if not deviating:
            return []
        found, leaves = [], set()
        named = {f.raw.id for f in forward if f.raw is not None}
        stops = any(f.kind in ("missing_op", "extra_op") or f.stage == "loss" for f in forward)
        for mismatch in backward.run():
            if mismatch.key not in backward.raw.makers:
                if mismatch.base in leaves:
                    continue  # one parameter of base's stands for several of raw's
                leaves.add(mismatch.base)
            if any(unit.call.id in named for unit in backward.raw.readers.get(mismatch.key, ())):
                continue
            if allowed == _ROUNDED and apart(mismatch.wanted, mismatch.left) <= allowed:
                continue
            ends = [r for r in deviating if r.key in _upstream(backward, mismatch)]
            if ends:
                path = next((r.path for r in ends if r.path is not None), None)
                finding = blame(backward, mismatch, path, number)
                if finding.raw.id in named if finding.raw is not None else stops:
                    continue
                if stops and finding.raw is not None and finding.raw.api in BACKWARD:
                    continue  # the pass starts from another value than base's
                if _is_loss(backward, finding):
                    finding.stage, finding.parameter = "loss", None
                    finding.message = finding.message.removeprefix("backward: ").partition(" (raw's")[0]
                found.append(finding)
        return found

    def _reached(self, backward: Backward) -> dict[int, tuple[np.ndarray | None, np.ndarray | None]]:
        """For each raw parameter, base's and raw's recorded gradient in raw's layout."""
        found = {}
        theirs = {r.uid: r.key for r in backward.forced.base.leaves}
        for ref in backward.ends():
            pair = self._pairs.parameters.get(ref.uid)
            if pair is None or pair.uid not in theirs:
                continue
            base = backward.base.gradient(theirs[pair.uid])
            laid = pair.layout.apply(base) if base is not None and base.size == ref.size else None
            found[ref.uid] = (laid, backward.raw.gradient(ref.key))
        return found

    def _counts(self) -> None:
        theirs, mine = len(self.base.training.steps), len(self.raw.training.steps)
        if theirs and mine and theirs != mine:
            text = f"base makes {theirs} optimizer steps, raw {mine}"
            self.findings.append(Finding("missing_op" if mine < theirs else "extra_op", text, "optimizer"))


def _is_loss(backward: Backward, finding: Finding) -> bool:
    """Whether the two calls make the values that the backward passes start from, and make them differ.

    A part of base's loss (the sum before the mean, say) may be all of raw's, so that it looked accounted for.
    """
    if finding.raw is None or finding.base is None:
        return False
    mine = [r for r in made_by(finding.raw) if r.key in backward.raw.seeds]
    theirs = [r for r in made_by(finding.base) if r.key in backward.base.seeds]
    if not mine or not theirs:
        return False
    gap = apart(backward.forced.base.trace.value(theirs[0]), backward.forced.own.get(mine[0].key))
    return gap > limit(mine[0].dtype)


def _upstream(backward: Backward, mismatch: Mismatch) -> set[Key]:
    """The value itself and all that it was made from."""
    found, stack = set(), [mismatch.key]
    while stack:
        key = stack.pop()
        if key in found:
            continue
        found.add(key)
        unit = backward.raw.makers.get(key)
        if unit is not None:
            stack.extend(r.key for r in unit.inputs)
    return found


def _stage(finding: Finding, raw: StepTrace) -> Stage:
    """Calls outside every module, after one has run, make the loss; so does a module that is called one."""
    call = finding.raw
    if finding.stage != "forward" or call is None:
        return finding.stage
    if call.module is not None:
        named = call.module == "" and (call.module_type or "").lower().endswith(("loss", "criterion"))
        return "loss" if named else "forward"
    return "loss" if any(c.module is not None and c.id < call.id for c in raw.calls) else "forward"


def _add(total: Evidence, part: Evidence) -> None:
    for name in (
        "compared",
        "grouped",
        "unmatched_base",
        "unmatched_raw",
        "beyond",
        "base_calls",
        "raw_calls",
    ):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for reason, count in part.beyond_reasons.items():
        total.beyond_reasons[reason] = total.beyond_reasons.get(reason, 0) + count


def _once(findings: list[Finding]) -> list[Finding]:
    """One finding where a cause shows in every step, in another parameter each time."""
    kept: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        where = (f.raw.site, f.raw.api) if f.raw is not None and f.stage != "optimizer" else (f.stage,)
        by = (
            f.argument or f.kind
            if f.stage in ("backward", "optimizer")
            else (f.kind, f.argument, f.parameter, f.message)
        )
        first = kept.setdefault((f.stage, by, *where), f)
        if first is not f:
            first.occurrences += f.occurrences
    return list(kept.values())


def _distinct(warnings: list[Warn]) -> list[Warn]:
    kept: dict[tuple[object, ...], Warn] = {}
    for w in warnings:
        where = w.raw.site if w.raw is not None else None
        kept.setdefault((w.message if where is None else w.argument, where, w.raw.api if w.raw else None), w)
    return list(kept.values())
