"""From pairs of layer calls to findings: where a difference begins, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from optrace.align.values import epsilon
from optrace.layers.closeness import Tolerance, furthest, rounding_floor, without_fills
from optrace.layers.pairing import Pair, pair
from optrace.layers.records import LayerCall, LayerRun
from optrace.layers.report import LayerFinding, LayerReport

Direction = Literal["forward", "backward"]
Phase = Literal["forward", "backward", "both"]
Arrays = Sequence[np.ndarray | None]

# What comes out of a layer may be this many times further apart than what went in.
_GROWTH = 50.0
_WHAT = {"inputs": "what goes into", "output_grads": "the gradient that comes back to"}


def judge(
    base: LayerRun,
    raw: LayerRun,
    tolerance: Tolerance | None = None,
    phase: Phase = "both",
    layer_map: Sequence[tuple[str, str]] = (),
    stepped: bool = False,
    same: bool = False,
) -> LayerReport:
    """Compare two recorded runs layer by layer.

    A layer is at fault when what went in agrees and what came out does not, and no layer inside it is.
    With ``stepped`` the runs are those of ``single_step``: whatever differs at a layer is its own doing.
    ``same``: the models are known to agree as wholes, so code between the layers is only written otherwise.
    """
    judged = _Judgement(base, raw, tolerance or Tolerance(), layer_map, stepped, same)
    if phase != "backward":
        judged.forward()
    if phase != "forward" and not judged.report.findings:
        judged.backward()
    return judged.report


class _Judgement:
    def __init__(
        self,
        base: LayerRun,
        raw: LayerRun,
        tolerance: Tolerance,
        layer_map: Sequence[tuple[str, str]],
        stepped: bool,
        same: bool,
    ) -> None:
        self.tolerance, self.stepped, self.same = tolerance, stepped, same
        self.pairs = pair(base, raw, layer_map)
        self.report = LayerReport(base, raw, self.pairs)
        self.coarsest = _coarsest(base, raw)
        self.floor = 0.0

    def forward(self) -> None:
        if len(self.report.base.roots) != len(self.report.raw.roots):
            counts = [len(run.roots) for run in (self.report.base, self.report.raw)]
            self._add(self.pairs[0], "forward", f"base ran {counts[0]} times, raw {counts[1]} times")
        self._stage("forward", "inputs", "outputs")

    def backward(self) -> None:
        grads = [g for a, b in self.pairs for c in (a, b) for g in (*c.input_grads, *c.output_grads)]
        self.floor = rounding_floor(grads)
        self._stage("backward", "output_grads", "input_grads")

    def _stage(self, stage: Direction, given: str, made: str) -> None:
        """Blame the innermost pairs whose ``made`` differ though their ``given`` agree."""
        wrong = [p for p in self.pairs if not self._agree(getattr(p[0], made), getattr(p[1], made))]
        if not self.stepped and not self._matters(stage, wrong):
            return
        blamed = [p for p in wrong if self._own(p, stage, given, made)]
        inner = [p for p in blamed if not any(p is not q and _inside(q[0], p[0]) for q in blamed)]
        if stage == "backward" and not self.stepped:
            inner = inner[-1:]  # further up, gradients are already wrong where no hook of ours saw it
        told = {id(p[0]) for p in inner}
        for p in inner:
            self._add(p, stage, self._what(p, given, made))
        if (self.stepped and not self.same) or not (self.stepped or inner):
            self._between(stage, given, made, told)
        if not self.stepped and not self.report.findings:
            order = wrong if stage == "forward" else wrong[::-1]
            first = next((p for p in order if p[0].name), next(iter(wrong), self.pairs[0]))
            self._add(first, stage, self._what(first, given, made))

    def _matters(self, stage: Direction, wrong: list[Pair]) -> bool:
        """Whether what differs inside shows: in what the models return, in the gradient of what layers return.

        A tensor that goes into a layer may be a view of another, so a gradient there is only a part.
        """
        if any(p[0].name == "" for p in wrong):
            return True
        return stage == "backward" and any(
            self._given(a.output_grads, b.output_grads) is False for a, b in self.pairs
        )

    def _between(self, stage: Direction, given: str, made: str, told: set[int]) -> None:
        """What reaches a layer differs though all that the layers before it gave agrees."""
        around = {id(child): call for call in self.report.base.walk() for child in call.children}
        by_base = {id(p[0]): p for p in self.pairs}
        ahead: set[int] = set()  # layers around one whose results already differ
        for p in self.pairs if stage == "forward" else self.pairs[::-1]:
            outer = around.get(id(p[0]))
            while outer is not None and id(outer) not in by_base:
                outer = around.get(id(outer))
            agree = self._given(getattr(p[0], given), getattr(p[1], given)) is not False
            if outer is None:
                if not agree:
                    what = "inputs" if stage == "forward" else "gradients of the outputs"
                    self._add(p, stage, f"the {what} of the two models differ")
                    return
                continue
            if not agree and id(outer) not in told | ahead:
                told.add(id(outer))
                found = furthest(*_by_shape(getattr(p[0], given), getattr(p[1], given)))
                text = f"{_WHAT[given]} {p[0].name} differs by code outside any layer that was compared: "
                text += f"max {found.max_abs:.2g}, relative L2 {found.rel_l2:.2g}"
                self._add(by_base[id(outer)], stage, text)
            if not self.stepped and not self._agree(getattr(p[0], made), getattr(p[1], made)):
                ahead.add(id(outer))

    def _agree(self, base: Arrays, raw: Arrays) -> bool:
        """Whether what two layers made agrees; a side may return more (states, attention weights)."""
        if len(base) == len(raw):
            return all(self._equal(a, b) for a, b in zip(base, raw))
        few, many = sorted((list(base), list(raw)), key=len)
        return bool(few) and all(any(self._equal(a, b) for b in many) for a in few if a is not None)

    def _given(self, base: Arrays, raw: Arrays) -> bool | None:
        """Whether what two layers got agrees; ``None`` where it can't be told: other shapes, masks."""
        if not base and not raw:
            return True
        left, right = (base, raw) if _shapes(base) == _shapes(raw) else _by_shape(base, raw)
        told = [(a, b) for a, b in zip(left, right) if a is not None and b is not None and not _mask(a, b)]
        if not all(self._equal(a, b) for a, b in told):
            return False
        return True if told or all(a is None for a in (*base, *raw)) else None

    def _equal(self, a: np.ndarray | None, b: np.ndarray | None) -> bool:
        if a is None or b is None:
            present = b if a is None else a
            return present is None or not np.any(present)  # no gradient is a gradient of zeros
        return self.tolerance.agree(*without_fills(a, b), self.coarsest, self.floor)

    def _own(self, p: Pair, stage: Direction, given: str, made: str) -> bool:
        """Whether what went in agrees, so that the layer itself makes the difference."""
        if self.stepped and _shapes(getattr(p[0], given)) == _shapes(getattr(p[1], given)):
            return True  # what it got was exchanged for base's
        if stage == "backward" and not self._given(p[0].inputs, p[1].inputs):
            return False
        return bool(self._given(getattr(p[0], given), getattr(p[1], given))) and self._grown(p, given, made)

    def _grown(self, p: Pair, given: str, made: str) -> bool:
        """Whether the results are further apart than rounding of what was given could make them."""
        before = furthest(*_by_shape(getattr(p[0], given), getattr(p[1], given))).rel_l2
        after = furthest(getattr(p[0], made), getattr(p[1], made)).rel_l2
        return after > _GROWTH * before

    def _what(self, p: Pair, given: str, made: str) -> str:
        a, b = getattr(p[0], made), getattr(p[1], made)
        what = "outputs" if made == "outputs" else "gradients of the inputs"
        if len(a) != len(b):
            return f"base has {len(a)} {what}, raw {len(b)}"
        for k, (x, y) in enumerate(zip(a, b)):
            if x is not None and y is not None and x.shape != y.shape:
                return f"{what} {k}: shape {list(x.shape)} in base, {list(y.shape)} in raw"
            if (x is None) != (y is None):
                return f"{what} {k}: only {'raw' if x is None else 'base'} has a gradient"
        found = furthest(a, b)
        own = self.stepped or self._given(getattr(p[0], given), getattr(p[1], given))
        where = (
            "given equal " + ("inputs" if given == "inputs" else "gradients") if own else "as the runs showed"
        )
        text = f"{what} differ {where}: max {found.max_abs:.2g}, relative L2 {found.rel_l2:.2g}"
        return text if not own else text + self._first_inside(p, given)

    def _first_inside(self, p: Pair, given: str) -> str:
        """The layer inside a pair before which, by code of the pair's own, the two part."""
        inside = {id(c) for c in p[0].walk() if c is not p[0]}
        for a, b in self.pairs if given == "inputs" else self.pairs[::-1]:
            if id(a) in inside and self._given(getattr(a, given), getattr(b, given)) is False:
                return f"; {_WHAT[given]} {a.name} differs first"
        return ""

    def _add(self, p: Pair, stage: Direction, message: str) -> None:
        name = "outputs" if stage == "forward" else "input_grads"
        figures = furthest(getattr(p[0], name), getattr(p[1], name))
        self.report.findings.append(LayerFinding(stage, p[0], p[1], message, figures))


def _inside(inner: LayerCall, outer: LayerCall) -> bool:
    return any(c is inner for c in outer.walk() if c is not outer)


def _shapes(arrays: Arrays) -> list[tuple[int, ...] | None]:
    return [None if a is None else a.shape for a in arrays]


def _mask(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether one of two arrays holds two values only: masks are written in many ways."""
    return any(x.size > 2 and bool(((x == x.min()) | (x == x.max())).all()) for x in (a, b))


def _by_shape(base: Arrays, raw: Arrays) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """Partners of one shape, in order: what is given twice, or in another order, has one partner each."""
    left, right, rest = [], [], list(raw)
    for a in base:
        for k, b in enumerate(rest):
            if (a is None) == (b is None) and (a is None or b is None or a.shape == b.shape):
                left.append(a)
                right.append(rest.pop(k))
                break
    return left, right


def _coarsest(*runs: LayerRun) -> str:
    """The coarsest floating dtype of any output: what half precision has lost stays lost."""
    found = {str(a.dtype) for run in runs for call in run.walk() for a in call.outputs}
    return max(found, key=epsilon, default="")
