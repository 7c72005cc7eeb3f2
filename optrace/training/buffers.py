"""Buffers after a step: BatchNorm's running statistics and whatever else a module keeps."""

from __future__ import annotations

import numpy as np

from optrace import ops
from optrace.align.graph import Node
from optrace.align.values import difference
from optrace.diagnose.arguments import argument_differences
from optrace.diagnose.findings import Error, ErrorFigures, Finding, Warn
from optrace.diagnose.forced import Forced
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.training.closeness import apart

# Rounding, and drift of the batches' statistics over steps, stay below; nothing with a cause does.
_SAME = 1e-3
# paddle keeps the biased variance, torch the unbiased one: n/(n-1). Worth a finding when n is small.
_BIAS = 0.05


class Buffers:
    """Compares buffers step by step; each pair that differs is reported once."""

    def __init__(self, base: Trace, raw: Trace) -> None:
        self._base, self._raw = base, raw
        self._done: set[int] = set()
        self.warnings: list[Warn] = []

    def run(self, forced: Forced, step: int) -> list[Finding]:
        """Findings at the end of ``step``, whose forward pass is ``forced``."""
        found = []
        for node in forced.raw.nodes:
            mine = self._kept(self._raw, node.call)
            if not mine:
                continue
            base = _counterpart(forced, node)
            theirs = self._kept(self._base, base) if base is not None else []
            if base is None or len(theirs) != len(mine) or not _same_input(forced, node.call, base):
                continue
            wrong = [
                (b, a)
                for b, a in zip(mine, theirs)
                if b.uid not in self._done and self._differs(a, b, node.call, step)
            ]
            if wrong:
                self._done.update(r.uid for r in mine)
                finding = self._report(node.call, base, wrong, step)
                if finding is not None:
                    found.append(finding)
        return found

    def _kept(self, trace: Trace, call: Call) -> list[TensorRef]:
        """The buffers that a call reads."""
        known = {b.uid for b in trace.training.buffers}
        refs = tensors_in(call.positional) + tensors_in(call.keyword)
        return [r for r in refs if r.uid in known]

    def _at(self, trace: Trace, uid: int, step: int) -> np.ndarray | None:
        states = [b for b in trace.training.buffers if b.uid == uid and b.step <= step]
        return trace.value(states[-1].ref) if states else None

    def _differs(self, base: TensorRef, raw: TensorRef, call: Call, step: int) -> bool:
        a, b = self._at(self._base, base.uid, step), self._at(self._raw, raw.uid, step)
        return (
            a is not None
            and b is not None
            and a.size == b.size
            and apart(a.reshape(-1), b.reshape(-1)) > _SAME
        )

    def _report(
        self, call: Call, base: Call, wrong: list[tuple[TensorRef, TensorRef]], step: int
    ) -> Finding | None:
        raw, other = wrong[0]
        a, b = self._at(self._base, other.uid, step), self._at(self._raw, raw.uid, step)
        assert a is not None and b is not None
        differing = argument_differences(base, call)
        text = f"{call.api}: buffer {raw.path} differs from base's {other.path} after the step"
        argument, hint = None, ""
        if differing:
            first = differing[0]
            argument = first.name
            if first.raw_value == first.base_value:
                text += f": {first.name} is {first.raw_value!r} on both sides, but does not mean the same"
                hint = (
                    first.note or "momentum is the share of the old value in paddle, of the new one in torch"
                )
            else:
                text += f": {first.name} is {first.raw_value!r}, base has {first.base_value!r}"
        elif "var" in (raw.path or "") and call.framework != base.framework:
            count = _per_channel(call)
            share = 1 / max(count - 1, 1)
            text += f": torch keeps the unbiased variance, paddle the biased one, which makes {share:.1%} for {count} values"
            hint = "correct the running variance by n/(n-1) after each batch, or use larger batches"
            if share <= _BIAS and apart(a.reshape(-1), b.reshape(-1)) <= 1.5 * share:
                self.warnings.append(Warn(text, base, call))
                return None
        figures = ErrorFigures(*difference(a.reshape(-1), b.reshape(-1), "float32")[:5])
        return Finding(
            "argument" if differing else "value", text, "buffer", base, call, argument, raw.path,
            Error(figures, figures), tuple(differing), hint, step=min(step, self._raw.calls[-1].step),
        )  # fmt: skip


def _per_channel(call: Call) -> int:
    shape = next((r.shape for r in tensors_in(call.positional) + tensors_in(call.keyword)), ())
    return int(np.prod(shape)) // shape[1] if len(shape) > 1 and shape[1] else 1


def _counterpart(forced: Forced, node: Node) -> Call | None:
    calls = (c for k in node.outputs for b in forced.base_keys(k) for c in forced.base.makers.get(b, ()))
    return next((c for c in calls if ops.same_job(c.api, node.call.api)), None)


def _same_input(forced: Forced, raw: Call, base: Call) -> bool:
    """Whether, in the two runs as they were, both calls read the same numbers."""
    mine, theirs = tensors_in(raw.positional), tensors_in(base.positional)
    if not mine or not theirs:
        return False
    a, b = forced.base.trace.value(theirs[0]), forced.raw.trace.value(mine[0])
    return a is not None and b is not None and a.shape == b.shape and apart(a, b) <= _SAME
