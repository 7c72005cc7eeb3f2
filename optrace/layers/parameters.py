"""Parameters and their gradients, compared name by name through the layers that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from optrace import frameworks
from optrace.align.values import difference
from optrace.frameworks.training import training_of
from optrace.layers.closeness import Tolerance, rounding_floor
from optrace.layers.records import LayerCall
from optrace.layers.report import LayerFinding, LayerReport

Arrays = Mapping[str, np.ndarray | None]


def weights(model: Any) -> dict[str, np.ndarray | None]:
    """The values of a model's parameters by name."""
    framework = frameworks.of_module(model)
    return {name: framework.to_numpy(p) for name, p in framework.named_parameters(model)}


def gradients(model: Any) -> dict[str, np.ndarray | None]:
    """The gradients of a model's parameters by name; ``None`` where there is none.

    Mixed precision keeps a finer one beside it (paddle's ``main_grad``), which then counts.
    """
    framework = frameworks.of_module(model)
    training = training_of(framework.name)
    found: dict[str, np.ndarray | None] = {}
    for name, parameter in framework.named_parameters(model):
        gradient = getattr(parameter, "main_grad", None)
        gradient = training.gradient(parameter) if gradient is None else gradient
        found[name] = None if gradient is None else framework.to_numpy(gradient)
    return found


def clear_gradients(model: Any) -> None:
    """Drop the gradients of all parameters."""
    framework = frameworks.of_module(model)
    for _, parameter in framework.named_parameters(model):
        if hasattr(parameter, "clear_gradient"):
            parameter.clear_gradient(False)
        else:
            parameter.grad = None


def judge_parameters(
    report: LayerReport, base: Arrays, raw: Arrays, tolerance: Tolerance, stage: Literal["weight", "gradient"]
) -> None:
    """Add a finding for each parameter of the paired layers that differs between the two sides."""
    floor = rounding_floor([*base.values(), *raw.values()]) if stage == "gradient" else 0.0
    done: set[str] = set()
    passed_on: list[LayerFinding] = []
    for mine, theirs in report.pairs:
        for first, second in partners(mine, theirs):
            a, b = base.get(_full(mine, first)), raw.get(_full(theirs, second))
            if _full(mine, first) in done or (a is None and b is None):
                continue
            done.add(_full(mine, first))
            message = _compare(a, b, tolerance, floor, stage)
            if message:
                text = f"{stage} of {_full(mine, first)} vs {_full(theirs, second)}: {message}"
                figures = difference(_like(a, b), b) if a is not None and b is not None else None
                found = LayerFinding(stage, mine, theirs, text, figures or _apart(), parameter=first)
                own = stage == "weight" or _agree(mine, theirs, tolerance, floor)
                (report.findings if own else passed_on).append(found)
    if not report.findings:
        report.findings += passed_on


def _agree(mine: LayerCall, theirs: LayerCall, tolerance: Tolerance, floor: float) -> bool:
    """Whether a layer got equal inputs and equal gradients, so that its own are its own doing."""
    pairs = [*zip(mine.inputs, theirs.inputs), *zip(mine.output_grads, theirs.output_grads)]
    return all(
        (a is None and b is None) or (a is not None and b is not None and tolerance.agree(a, b, floor=floor))
        for a, b in pairs
    )


def partners(mine: LayerCall, theirs: LayerCall) -> list[tuple[str, str]]:
    """The parameters of two paired layers: of one name, else of one shape in order."""
    same = [(n, n) for n in mine.owned if n in theirs.owned and _fits(mine, theirs, n, n)]
    left = [n for n in mine.owned if (n, n) not in same]
    rest = [n for n in theirs.owned if (n, n) not in same]
    for name in left:
        for other in rest:
            if _fits(mine, theirs, name, other):
                same.append((name, other))
                rest.remove(other)
                break
    return same


def _fits(mine: LayerCall, theirs: LayerCall, first: str, second: str) -> bool:
    return sorted(mine.owned[first].shape) == sorted(theirs.owned[second].shape)


def _compare(
    a: np.ndarray | None, b: np.ndarray | None, tolerance: Tolerance, floor: float, stage: str
) -> str:
    """What is wrong, "" when nothing is."""
    if a is None or b is None:
        present = b if a is None else a
        if stage == "gradient" and present is not None and not np.any(present):
            return ""
        return f"only {'raw' if a is None else 'base'} has one"
    if any(tolerance.agree(a, form, floor=floor) for form in _forms(a, b)):
        return ""
    found = difference(_like(a, b), b)
    return found.note or f"max difference {found.max_abs:.2g}, relative L2 {found.rel_l2:.2g}"


def _forms(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """``b`` as it is, and transposed, in whichever the shapes allow."""
    forms = [b] if a.shape == b.shape else []
    if b.ndim == 2 and a.shape == b.shape[::-1]:
        forms.append(b.T)
    return forms or [b]


def _like(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a``, transposed where that is nearer to ``b``."""
    return min((f.T if f.shape != b.shape else f for f in (a, a.T if a.ndim == 2 else a)),
               key=lambda f: difference(f, b).rel_l2)  # fmt: skip


def _full(call: LayerCall, name: str) -> str:
    return f"{call.name}.{name}" if call.name else name


def _apart() -> Any:
    return difference(np.zeros(1), np.zeros(2))
