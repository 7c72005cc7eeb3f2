"""Run two models and compare them layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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
    losses = loss_fns or (None, None)
    backward = phase != "forward"
    draws = Draws(selections[0].framework, base_model, train)
    alias = Alias(selections[0]) if single_step else None
    base = run_layers(selections[0], fed[0], losses[0], backward, train, alias, draws.recorded())
    grads = gradients(base_model) if backward else {}
    step = _step(selections[1], fed[1], base, pairs, train, draws) if single_step else None
    raw = run_layers(selections[1], fed[1], losses[1], backward, train, step, draws.replayed())
    if not base.roots or not raw.roots:
        raise ComparisonError("a model did not run, so there is nothing to compare")
    report = judge(base, raw, tolerance, phase, pairs, stepped=single_step)
    if backward:
        judge_parameters(report, grads, gradients(raw_model), tolerance or Tolerance(), "gradient")
    for finding in report.findings:
        finding.opener = opener(finding, selections, train)
    return report


def run_layers(
    selection: Selection,
    inputs: Any,
    loss: Loss | None = None,
    backward: bool = True,
    train: bool | None = False,
    stepper: Stepper | None = None,
    around: AbstractContextManager[Any] | None = None,
) -> LayerRun:
    """One forward run, and one backward, of one model; its modes and generator state are restored.

    The forward run is made inside ``around``.
    """
    framework, model = selection.framework, selection.model
    run = LayerRun(type(model).__name__, framework.name, layer_map=list(selection.mapped))
    args, kwargs = call_arguments(framework, inputs)
    state = framework.rng_state()
    try:
        if backward:
            clear_gradients(model)
        with mode(framework, model, train), framework.unfused():
            with around or nullcontext(), Recorder(selection, run, stepper):
                output = model(*args, **kwargs)
            if backward:
                (loss(output) if loss is not None else mean_loss(output)).backward()
    except TypeError as error:
        if run.roots and run.roots[0].children:
            raise ModelError(f"{run.model} raised TypeError: {error}") from error
        names = ", ".join(kwargs) or f"{len(args)} positional"
        raise InputError(f"{run.model} can't be called with these inputs ({names}): {error}") from error
    except Exception as error:
        raise ModelError(f"{run.model} raised {type(error).__name__}: {error}") from error
    finally:
        framework.set_rng_state(state)
    return run


def _step(
    selection: Selection,
    inputs: Any,
    base: LayerRun,
    layer_map: list[tuple[str, str]],
    train: bool | None,
    draws: Draws,
) -> Step:
    """Run raw once as it is, to see which of its layers correspond to base's; its buffers are restored."""
    framework, model = selection.framework, selection.model
    buffers = [(b, framework.to_numpy(b)) for _, b in framework.named_buffers(model)]
    first = run_layers(selection, inputs, backward=False, train=train, around=draws.replayed())
    for buffer, values in buffers:
        framework.assign(buffer, values)
    return Step(selection, list(first.walk()), pair(base, first, layer_map))


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
