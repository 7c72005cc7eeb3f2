"""``auto_diff`` and ``assign_weight`` as PaDiff calls them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optrace import api, frameworks
from optrace.errors import InputError, OptraceError, WeightError
from optrace.frameworks.training import training_of
from optrace.layers.closeness import Tolerance
from optrace.layers.compare import compare_layers
from optrace.layers.dump import write_parameters, write_report
from optrace.layers.parameters import gradients, judge_parameters, weights
from optrace.layers.report import LayerReport
from optrace.padiff.checks import log, tolerance_of
from optrace.padiff.layer_map import LayerMap
from optrace.padiff.proxy import ProxyModel, create_model
from optrace.weights import assign_weight as carry_over

_OPTIONS = {
    "auto_init": True, "atol": None, "rtol": None, "compare_mode": "mean", "diff_phase": "both",
    "single_step": False, "steps": 1, "layer_map": None, "model_names": None,
}  # fmt: skip
_OLDER = {
    "auto_weights": "auto_init",
    "layer_mapping": "layer_map",
    "loss_fn": "loss_fns",
    "optimizer": "optimizers",
}


def assign_weight(base_model: Any, raw_model: Any, layer_map: Any = None) -> bool:
    """Give ``raw_model`` the weights of ``base_model``; false, with the reason printed, where it can't be done."""
    return _assign(create_model(base_model), create_model(raw_model), None, layer_map)


def _assign(base: ProxyModel, raw: ProxyModel, inputs: Any, layer_map: Any) -> bool:
    pairs = layer_map or list(zip(base.selection.mapped, raw.selection.mapped))
    try:
        report = carry_over(base.model, raw.model, inputs, layer_map=pairs or None)
    except WeightError as error:
        log("Assign weight Failed !!!")
        print(error)
        return False
    log("Assign weight success !!!")
    for note in report.notes:
        print(note)
    return True


def auto_diff(
    base_model: Any, raw_model: Any, inputs: Any, loss_fns: Any = None, optimizers: Any = None, **kwargs: Any
) -> bool:
    """Whether two models agree layer by layer, forward and backward; what differs is printed.

    ``inputs``: ``(inputs of base, inputs of raw)``, each a dict of tensors by argument name. ``loss_fns``: two
    functions of one output; the mean of the outputs without them. ``optimizers``: two optimizers, or two
    functions without arguments that update a model. Options: ``auto_init`` (carry the weights over first),
    ``atol`` and ``rtol`` (``None``: as far as rounding explains), ``compare_mode``, ``diff_phase``,
    ``single_step``, ``steps``, ``layer_map``. Nothing is kept for the next comparison.

    The runs are dumped to ``<dump_path of the model>/auto_diff``. With ``PADIFF_API_CHECK=ON`` the calls inside
    the layers are compared, too. Modes (train, eval) are left as they are.
    """
    options, losses, updates = _options(kwargs, loss_fns, optimizers)
    names = options["model_names"] or (None, None)
    base, raw = create_model(base_model, names[0]), create_model(raw_model, names[1])
    both = _inputs(inputs)
    layer_map = _ignore(options["layer_map"], base, raw)
    if options["auto_init"] and not _assign(base, raw, both, layer_map):
        return _told(False)
    tolerance = tolerance_of({k: options[k] for k in ("atol", "rtol", "compare_mode")})
    for step in range(options["steps"]):
        try:
            report = compare_layers(
                base.model, raw.model, both, loss_fns=losses, tolerance=tolerance, phase=options["diff_phase"],
                layer_map=layer_map, single_step=options["single_step"], base_selection=base.selection,
                raw_selection=raw.selection, train=None,
            )  # fmt: skip
        except OptraceError as error:
            log(f"the models can't be compared: {error}")
            raise
        _dump(base, raw, report, options["diff_phase"] != "forward")
        if report and updates is not None:
            _update(base, raw, report, updates, tolerance)
        if not report:
            log(f"differs in step {step}")
            _show(report)
            return _told(False)
        log(f"step {step}: {len(report.pairs)} pairs of layers compared")
    if os.environ.get("PADIFF_API_CHECK", "").upper() == "ON" and not _calls(
        base, raw, both, losses, options
    ):
        return _told(False)
    return _told(True)


def _options(kwargs: dict[str, Any], losses: Any, updates: Any) -> tuple[dict[str, Any], Any, Any]:
    given = {**kwargs.pop("options", {}), **kwargs}
    given = {_OLDER.get(k, k): v for k, v in given.items()}
    losses, updates = given.pop("loss_fns", None) or losses, given.pop("optimizers", None) or updates
    unknown = sorted(set(given) - set(_OPTIONS) - {"use_loss", "use_opt"})
    if unknown:
        warnings.warn(
            f"auto_diff knows no {', '.join(unknown)}; its options are {', '.join(_OPTIONS)}", stacklevel=3
        )
    options: dict[str, Any] = {k: given.get(k, default) for k, default in _OPTIONS.items()}
    if options["diff_phase"] not in ("forward", "backward", "both"):
        raise InputError(f"diff_phase {options['diff_phase']!r} is not one of 'forward', 'backward', 'both'")
    if options["diff_phase"] == "backward" and not options["single_step"]:
        options["diff_phase"] = "both"
        log("diff_phase 'backward' is for single_step; both are compared")
    if options["diff_phase"] == "forward":
        updates = None
    if updates is None and options["steps"] > 1:
        log("steps is 1, because a model without optimizer does the same in each")
        options["steps"] = 1
    for what, pair in (("loss_fns", losses), ("optimizers", updates)):
        if pair is not None and len(pair) != 2:
            raise InputError(f"{what} must hold one for base and one for raw, in this order")
    return options, losses, updates


def _inputs(inputs: Any) -> Any:
    """A pair; what is given once goes to both."""
    if isinstance(inputs, (list, tuple)) and len(inputs) == 2 and all(isinstance(i, dict) for i in inputs):
        return tuple(inputs)
    if isinstance(inputs, (list, tuple)) and len(inputs) == 2 and all(map(frameworks.of_tensor, inputs)):
        return tuple(inputs)
    given = inputs if isinstance(inputs, (dict, list, tuple)) else (inputs,)
    return given, given


def _ignore(layer_map: Any, base: ProxyModel, raw: ProxyModel) -> Any:
    """Take the layers that a ``LayerMap`` leaves out from the models; what it pairs is returned."""
    if not isinstance(layer_map, LayerMap):
        return layer_map or None
    for layer, mode in layer_map.ignored:
        side = base if any(m is layer for m in base.selection.modules.values()) else raw
        side.update_black_list(layer, mode)  # type: ignore[arg-type]
    return layer_map.map or None


def _dump(base: ProxyModel, raw: ProxyModel, report: LayerReport, backward: bool) -> None:
    for proxy, run in ((base, report.base), (raw, report.raw)):
        folder = Path(proxy.dump_path, "auto_diff")
        write_report(run, folder, proxy.name)
        grads = gradients(proxy.model) if backward else {}
        write_parameters(proxy.selection, folder, proxy.name, weights(proxy.model), grads)


def _update(
    base: ProxyModel, raw: ProxyModel, report: LayerReport, updates: Sequence[Any], tolerance: Tolerance
) -> None:
    """One step of both optimizers; parameters that then differ become findings."""
    for proxy, update in zip((base, raw), updates):
        if hasattr(update, "step"):
            update.step()
            training_of(proxy.framework).zero_grad(update)
        else:
            update()
    judge_parameters(report, weights(base.model), weights(raw.model), tolerance, "weight")


def _calls(base: ProxyModel, raw: ProxyModel, inputs: Any, losses: Any, options: dict[str, Any]) -> bool:
    """Compare the calls inside the layers."""
    report = api.auto_diff(
        base.model,
        raw.model,
        inputs,
        losses if options["diff_phase"] != "forward" else None,
        auto_init=False,
        train=None,
    )
    print(report)
    return bool(report)


def _show(report: LayerReport) -> None:
    print(report)
    first = report.first
    if first is None or first.stage not in ("forward", "backward"):
        return
    try:
        inside = first.open()
    except OptraceError as error:
        log(f"the calls inside {first.base.name or 'the model'} can't be compared: {error}")
        return
    for finding in inside:
        log(f"inside {first.base.name or 'the model'}: {finding.message}")
        for call in (finding.base, finding.raw):
            if call is not None and call.site is not None:
                print(f"    {call.api}  {call.site.file}:{call.site.line}  {call.site.code}")


def _told(passed: bool) -> bool:
    log("SUCCESS !!!\n" if passed else "FAILED !!!\n")
    return passed
