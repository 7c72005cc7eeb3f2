"""Run two models and compare them layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.diagnose.run import call_arguments, mode, sides
from optrace.errors import ComparisonError, InputError, ModelError
from optrace.layers.closeness import Tolerance
from optrace.layers.draws import Draws
from optrace.layers.findings import Phase, judge
from optrace.layers.open import opener
from optrace.layers.pairing import pair
from optrace.layers.parameters import clear_gradients, gradients, judge_parameters
from optrace.layers.recorder import Recorder, Stepper, leaves
from optrace.layers.records import LayerRun
from optrace.layers.report import LayerReport
from optrace.layers.selection import Selection
from optrace.layers.step import Alias, Step

Loss = Callable[[Any], Any]


def compare_layers(
    base_model: Any,
    raw_model: Any,
    inputs: Any,
    *,
    loss_fns: Sequence[Loss] | None = None,
    tolerance: Tolerance | None = None,
    phase: Phase = "both",
    layer_map: Any = None,
    single_step: bool = False,
    base_selection: Selection | None = None,
    raw_selection: Selection | None = None,
    train: bool | None = False,
) -> LayerReport:
    """Run both models on the same inputs and compare what each layer makes of them.

    ``inputs``: as in ``optrace.auto_diff``. ``phase``: ``"forward"`` runs no backward pass; otherwise the
    loss is ``loss_fns`` called with the output, or the mean of all floating outputs. ``layer_map``: pairs of
    layers (objects or names) that are compared as wholes. ``single_step``: each layer of raw gets what base's
    layer got, forward and backward, so that differences do not add up. Selections say which layers take part.
    The models' gradients are cleared before and hold those of this run afterwards. Raises ``InputError``
    and ``ModelError`` as ``auto_diff`` does, ``ComparisonError`` when no layer ran.
    """
    selections = (base_selection or Selection(base_model), raw_selection or Selection(raw_model))
    pairs = _layer_map(layer_map, *selections)
    fed = sides(base_model, raw_model, inputs)
    draws = Draws(selections[0].framework, base_model, train)
    alias = Alias(selections[0]) if single_step else None
    base = forward(selections[0], fed[0], train, alias, draws.recorded())
    buffers = _buffers(raw_model) if single_step else []
    raw = forward(selections[1], fed[1], train, None, draws.replayed())
    if not base.run.roots or not raw.run.roots:
        raise ComparisonError("a model did not run, so there is nothing to compare")
    losses: Sequence[Loss] = loss_fns or _mean_losses(base, raw)
    if phase != "forward":
        base.backward(losses[0])
    grads = gradients(base_model) if phase != "forward" else {}
    report = _judged(base, raw, losses[1], grads, tolerance, phase, pairs)
    if single_step:
        for buffer, values in buffers:
            raw.selection.framework.assign(buffer, values)
        step = Step(selections[1], list(raw.run.walk()), pair(base.run, raw.run, pairs))
        raw = forward(selections[1], fed[1], train, step, draws.replayed())
        report = _judged(
            base, raw, losses[1], grads, tolerance, phase, pairs, stepped=True, same=bool(report)
        )
    for finding in report.findings:
        finding.opener = opener(finding, selections, train)
    return report


def _buffers(model: Any) -> list[tuple[Any, np.ndarray]]:
    framework = frameworks.of_module(model)
    return [(b, framework.to_numpy(b)) for _, b in framework.named_buffers(model)]


def _judged(
    base: Forward,
    raw: Forward,
    loss: Loss,
    grads: Mapping[str, np.ndarray | None],
    tolerance: Tolerance | None,
    phase: Phase,
    pairs: list[tuple[str, str]],
    **how: bool,
) -> LayerReport:
    """Run raw's backward pass and compare."""
    if phase == "forward":
        return judge(base.run, raw.run, tolerance, phase, pairs, **how)
    raw.backward(loss)
    report = judge(base.run, raw.run, tolerance, phase, pairs, **how)
    if any(f.stage == "forward" for f in report.findings):
        return report  # whose gradients can't agree
    judge_parameters(report, grads, gradients(raw.selection.model), tolerance or Tolerance(), "gradient")
    return report


@dataclass
class Forward:
    """One forward run of one model, and what it returned."""

    selection: Selection
    run: LayerRun
    output: Any

    def backward(self, loss: Loss) -> None:
        """One backward pass into cleared gradients. Raises ``ModelError`` for what the loss raises."""
        clear_gradients(self.selection.model)
        try:
            loss(self.output).backward()
        except Exception as error:
            raise ModelError(f"{self.run.model}, backward: {type(error).__name__}: {error}") from error

    def floating(self) -> list[Any]:
        """The tensors of the output that a loss can be taken of."""
        framework = self.selection.framework
        return [
            t
            for t in leaves(framework, self.output)
            if framework.info(t).dtype.startswith(("float", "bfloat"))
        ]


def forward(
    selection: Selection,
    inputs: Any,
    train: bool | None = False,
    stepper: Stepper | None = None,
    around: AbstractContextManager[Any] | None = None,
) -> Forward:
    """Run one model once, inside ``around``; its modes and generator state are restored."""
    framework, model = selection.framework, selection.model
    run = LayerRun(type(model).__name__, framework.name, layer_map=list(selection.mapped))
    args, kwargs = call_arguments(framework, inputs)
    state = framework.rng_state()
    try:
        with (
            mode(framework, model, train),
            framework.unfused(),
            around or nullcontext(),
            Recorder(selection, run, stepper),
        ):
            output = model(*args, **kwargs)
    except TypeError as error:
        if run.roots and run.roots[0].children:
            raise ModelError(f"{run.model} raised TypeError: {error}") from error
        names = ", ".join(kwargs) or f"{len(args)} positional"
        raise InputError(f"{run.model} can't be called with these inputs ({names}): {error}") from error
    except Exception as error:
        raise ModelError(f"{run.model} raised {type(error).__name__}: {error}") from error
    finally:
        framework.set_rng_state(state)
    return Forward(selection, run, output)


def _mean_losses(base: Forward, raw: Forward) -> tuple[Loss, Loss]:
    """The mean of the means of what both models return, where one returns more than the other, too."""
    ours, theirs = base.floating(), raw.floating()
    chosen = [(k, k) for k in range(len(ours))]
    if [tuple(t.shape) for t in ours] != [tuple(t.shape) for t in theirs]:
        arrays = [[f.selection.framework.to_numpy(t) for t in ts] for f, ts in ((base, ours), (raw, theirs))]
        close = Tolerance()
        chosen = []
        for k, a in enumerate(arrays[0]):
            taken = {m for _, m in chosen}
            found = [m for m, b in enumerate(arrays[1]) if m not in taken and close.agree(a, b)]
            chosen += [(k, found[0])] if found else []
        chosen = chosen or [(0, 0)][: min(len(ours), len(theirs))]

    def of(run: Forward, places: list[int]) -> Loss:
        def loss(output: Any) -> Any:
            tensors = Forward(run.selection, run.run, output).floating()
            return mean_loss([tensors[k] for k in places])

        return loss

    return of(base, [k for k, _ in chosen]), of(raw, [m for _, m in chosen])


def mean_loss(output: Any) -> Any:
    """The mean of the means of all floating tensors of an output: what stands in for a loss."""
    means = []
    for framework in frameworks.all_loaded():
        for tensor in leaves(framework, output):
            if framework.info(tensor).dtype.startswith(("float", "bfloat")):
                means.append(tensor.mean())
    if not means:
        raise InputError("the output holds no floating tensor to take a loss of; give loss_fns")
    return sum(means[1:], means[0]) / len(means)


def _layer_map(given: Any, base: Selection, raw: Selection) -> list[tuple[str, str]]:
    """Pairs of names; both selections then look at those layers as wholes."""
    given = getattr(given, "map", given)
    if not given:
        return list(zip(base.mapped, raw.mapped))
    items = list(given.items()) if hasattr(given, "items") else [tuple(p) for p in given]
    pairs = []
    for first, second in items:
        try:
            pairs.append((base.path(first), raw.path(second)))
        except InputError:
            pairs.append((base.path(second), raw.path(first)))
    base.map([p[0] for p in pairs])
    raw.map([p[1] for p in pairs])
    return pairs
