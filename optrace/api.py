"""``optrace.diff`` and ``optrace.auto_diff``."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from optrace import frameworks
from optrace.diagnose.compare import Comparison
from optrace.diagnose.recorded import RecordedComparison
from optrace.diagnose.run import run_model, sides
from optrace.errors import ComparisonError, InputError
from optrace.layers import LayerReport, compare_layers
from optrace.layers.closeness import CompareMode, Tolerance
from optrace.layers.compare import mean_loss
from optrace.layers.findings import Phase
from optrace.layers.parameters import clear_gradients
from optrace.trace.model import Trace
from optrace.trace.stream import Stream, is_long

if TYPE_CHECKING:
    from optrace.report.model import Report


# A step after every other.
ALL_STEPS = 1 << 62


def diff(
    base: Trace | str | Path, raw: Trace | str | Path, rtol: float | None = None, atol: float | None = None
) -> Report:
    """Compare two traces, or the folders of two saved ones.

    ``rtol`` and ``atol`` replace the tolerances that follow from the dtypes; without values (level ``"stats"``)
    they hold for a whole tensor, relative to the root mean square of its elements. Raises
    ``ComparisonError`` when nothing can be said: an empty trace, a trace against itself, runs on
    different inputs.
    """
    from optrace.randomness.again import install
    from optrace.randomness.audit import random_ops_of
    from optrace.randomness.pairing import pair
    from optrace.report.model import Report

    install()
    if _in_pieces(base) and _in_pieces(raw):
        return _diff_in_pieces(Path(base), Path(raw), rtol, atol)
    a, b = _trace(base), _trace(raw)
    if a is b or a.meta["id"] == b.meta["id"]:
        raise ComparisonError(
            "both sides are the same trace; trace the base model and the raw model separately"
        )
    drawn = [*random_ops_of(a), *random_ops_of(b)]
    if a.level == b.level == "full" and _can_run(a) and _can_run(b):
        reasons = pair(a, b)
        if a.training and b.training:
            from optrace.training.compare import TrainingComparison

            training = TrainingComparison(a, b, rtol, atol)
            return _beyond(Report(a, b, *training.run(), training.forced, drawn), reasons)
        forced = Comparison(a, b, rtol, atol)
        findings, warnings, evidence = forced.run()
        if a.training.changed_buffers() and b.training.changed_buffers():
            from optrace.training.buffers import Buffers

            buffers = Buffers(a, b)
            findings += buffers.run(forced.forced, ALL_STEPS)
            warnings += buffers.warnings
        return _beyond(Report(a, b, findings, warnings, evidence, forced.forced, drawn), reasons)
    recorded = RecordedComparison(a, b, rtol, atol)
    return Report(a, b, *recorded.run(), recorded.prints, drawn)


def _in_pieces(side: Trace | str | Path) -> TypeGuard[str | Path]:
    """Whether a side is a saved trace without values that is too long to be held in memory."""
    if isinstance(side, Trace) or not is_long(Path(side)):
        return False
    stream = Stream(Path(side))
    stream.waiting(1)
    return stream.trace.level != "full"


def _diff_in_pieces(base: Path, raw: Path, rtol: float | None, atol: float | None) -> Report:
    from optrace.diagnose.windowed import WindowedComparison
    from optrace.randomness.audit import RandomOps
    from optrace.report.model import Report

    drawn = RandomOps(), RandomOps()
    a, b = Stream(base, drawn[0].add), Stream(raw, drawn[1].add)
    comparison = WindowedComparison(a, b, rtol, atol)
    return Report(a.trace, b.trace, *comparison.run(), comparison.prints, [*drawn[0].all, *drawn[1].all])


def _beyond(report: Report, reasons: dict[str, int]) -> Report:
    """Add to the evidence which calls could not be compared, and why."""
    evidence = report.evidence
    for reason, count in reasons.items():
        evidence.beyond += count
        evidence.compared = max(evidence.compared - count, 0)
        evidence.beyond_reasons[reason] = evidence.beyond_reasons.get(reason, 0) + count
    return report


def _can_run(trace: Trace) -> bool:
    """Whether the frameworks of a trace are here, so that its calls can be run again."""
    return all(importlib.util.find_spec(name) is not None for name in trace.frameworks)


def _has_state(model: Any) -> bool:
    """Whether a model has any parameter or buffer to carry over."""
    framework = frameworks.of_module(model)
    return any(True for pairs in (framework.named_parameters, framework.named_buffers) for _ in pairs(model))


def _trace(side: Trace | str | Path) -> Trace:
    if isinstance(side, Trace):
        return side
    from optrace.trace.store import read

    return read(Path(side))


def _replaying(base: Trace, train: bool | None) -> AbstractContextManager[Any]:
    """Base's draws for the raw run."""
    from optrace.randomness.live import replay_random

    return nullcontext() if train is False else replay_random(base)


def auto_diff(
    base_model: Any,
    raw_model: Any,
    inputs: Any,
    loss_fns: Any = None,
    optimizers: Any = None,
    *,
    auto_init: bool = True,
    steps: int = 1,
    atol: float | None = None,
    rtol: float | None = None,
    compare_mode: CompareMode = "strict",
    diff_phase: Phase = "both",
    single_step: bool = False,
    layer_map: Any = None,
    train: bool | None = False,
) -> Report:
    """Run both models on the same inputs and name every cause of a difference.

    ``inputs``: a dict (or tuple) of numpy arrays for both, or a pair ``(base_inputs, raw_inputs)``.
    ``diff_phase``: ``"forward"`` runs neither loss nor optimizers; ``"backward"`` runs a backward pass (of the
    mean of the outputs without ``loss_fns``) and tells only what differs behind the forward pass.
    ``single_step`` also compares layer by layer, each layer of raw on what base's layer got; ``layer_map`` too,
    with the paired layers (``{base layer: raw layer}``, objects or names) as wholes: see ``report.layers``.
    ``compare_mode`` is that of layers: ``"strict"`` holds every element to ``atol`` and ``rtol``, ``"mean"`` also
    lets pass what rounding explains.
    ``auto_init`` carries base's weights over first. ``train``: false compares in eval mode, true in
    train mode with base's random draws fed to raw, ``None`` leaves the modes; the models' modes are restored. Raises
    ``InputError`` when
    a model can't take the inputs and ``ModelError`` (with ``.trace``) when it raises.
    """
    tolerance = Tolerance(atol, rtol, compare_mode)
    if diff_phase not in ("forward", "backward", "both"):
        raise InputError(f"diff_phase {diff_phase!r} is not one of 'forward', 'backward', 'both'")
    if diff_phase == "forward":
        loss_fns, optimizers, steps = None, None, 1
    if diff_phase == "backward" and loss_fns is None:
        loss_fns = (mean_loss, mean_loss)
    if auto_init and (_has_state(base_model) or _has_state(raw_model)):
        from optrace.weights import assign_weight

        assign_weight(base_model, raw_model, inputs, layer_map=layer_map)
    layers = None
    if single_step or layer_map:
        trained = loss_fns is not None or optimizers is not None
        layers = compare_layers(
            base_model, raw_model, inputs, loss_fns=loss_fns, tolerance=tolerance,
            phase=diff_phase if trained else "forward", layer_map=layer_map, single_step=single_step, train=train,
        )  # fmt: skip
        clear_gradients(base_model)
        clear_gradients(raw_model)
    base_inputs, raw_inputs = sides(base_model, raw_model, inputs)
    if loss_fns is not None or optimizers is not None or steps > 1:
        from optrace.training.loop import run_training

        base_loss, raw_loss = loss_fns if loss_fns is not None else (None, None)
        base_optimizer, raw_optimizer = optimizers if optimizers is not None else (None, None)
        base = run_training(base_model, base_inputs, base_loss, base_optimizer, steps, train)
        with _replaying(base, train):
            raw = run_training(raw_model, raw_inputs, raw_loss, raw_optimizer, steps, train)
        return _with_layers(diff(base, raw, rtol, atol), layers, diff_phase)
    base = run_model(base_model, base_inputs, train)
    with _replaying(base, train):
        raw = run_model(raw_model, raw_inputs, train)
    return _with_layers(diff(base, raw, rtol, atol), layers, diff_phase)


def _with_layers(report: Report, layers: LayerReport | None, phase: str) -> Report:
    """Add what the layers show; calls explain a layer, so it is a finding only where none of them did."""
    if phase == "backward":
        report.findings = [f for f in report.findings if f.stage != "forward"]
    report.layers = layers
    if layers is not None and not report.findings:
        report.findings += [f.as_finding(report.base, report.raw) for f in layers.findings]
    return report
