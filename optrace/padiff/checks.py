"""``check_report``, ``check_params`` and their kin: dumps of two models compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from optrace import frameworks
from optrace.errors import ComparisonError, InputError, OptraceError, TraceError
from optrace.layers.closeness import Tolerance
from optrace.layers.dump import read_parameters, read_report
from optrace.layers.findings import Phase, judge
from optrace.layers.pairing import pair
from optrace.layers.parameters import judge_parameters
from optrace.layers.recorder import leaves
from optrace.layers.report import LayerReport

Config = Mapping[str, Any] | None


def log(text: str) -> None:
    """Tell the user, where PaDiff would."""
    print(f"[AutoDiff] {text}", flush=True)


def tolerance_of(cfg: Config) -> Tolerance:
    """``atol``, ``rtol`` and ``compare_mode`` of a configuration, which holds for one comparison only."""
    cfg = dict(cfg or {})
    unknown = set(cfg) - {"atol", "rtol", "compare_mode", "act_name", "action_name", "check_mode"}
    if unknown:
        raise InputError(f"cfg has {', '.join(sorted(unknown))}; it may have atol, rtol, compare_mode")
    return Tolerance(cfg.get("atol"), cfg.get("rtol"), cfg.get("compare_mode", "mean"))


def check_report(
    report_path_0: str, report_path_1: str, cfg: Config = None, diff_phase: Phase = "both"
) -> bool:
    """Whether two dumped runs agree layer by layer; what differs is printed.

    A path is a folder with ``report.json``, or one with ``step_*`` or ``rank_*`` folders: all of them are
    compared, and both sides must have the same ones. ``cfg``: ``atol``, ``rtol``, ``compare_mode``.
    """
    if diff_phase not in ("forward", "backward", "both"):
        raise InputError(f"diff_phase {diff_phase!r} is not one of 'forward', 'backward', 'both'")
    tolerance = tolerance_of(cfg)

    def compare(first: Path, second: Path) -> LayerReport:
        base, raw = read_report(first), read_report(second)
        if not base.roots or not raw.roots:
            raise ComparisonError("a dump holds no layer that ran: call the model before it is dumped")
        return judge(base, raw, tolerance, diff_phase)

    return _check("report", compare, report_path_0, report_path_1)


def check_params(report_path_0: str, report_path_1: str, cfg: Config = None) -> bool:
    """Whether the dumped parameters and their gradients agree."""
    same = check_weights(report_path_0, report_path_1, cfg)
    return check_grads(report_path_0, report_path_1, cfg) and same


def check_weights(report_path_0: str, report_path_1: str, cfg: Config = None) -> bool:
    """Whether the dumped parameters agree."""
    return _check_parameters("weights", report_path_0, report_path_1, cfg)


def check_grads(report_path_0: str, report_path_1: str, cfg: Config = None) -> bool:
    """Whether the dumped gradients of the parameters agree."""
    return _check_parameters("grads", report_path_0, report_path_1, cfg)


def _check_parameters(kind: str, first: str, second: str, cfg: Config) -> bool:
    tolerance = tolerance_of(cfg)

    def compare(one: Path, two: Path) -> LayerReport:
        (base, ours), (raw, theirs) = read_parameters(one, kind), read_parameters(two, kind)
        report = LayerReport(base, raw, pair(base, raw))
        judge_parameters(report, ours, theirs, tolerance, "weight" if kind == "weights" else "gradient")
        return report

    return _check(kind, compare, first, second)


def _check(what: str, compare: Any, first: str, second: str) -> bool:
    if Path(first).resolve() == Path(second).resolve():
        raise ComparisonError(
            f"both paths are {first}: a dump agrees with itself whatever is in it. Give the models different names"
        )
    passed = True
    for name, one, two in _matched(Path(first), Path(second)):
        try:
            report = compare(one, two)
        except OptraceError as error:
            log(f"{what}{name}: can't be compared: {error}")
            passed = False
            continue
        if not report:
            log(f"{what}{name} differs")
            print(report)
            passed = False
    log(f"{what} compared: {'they agree' if passed else 'FAILED !!!'}")
    return passed


def _matched(first: Path, second: Path) -> Iterator[tuple[str, Path, Path]]:
    """Folders of equal steps and ranks. Raises ``TraceError`` where a side has others than the other."""
    inside = [_numbered(first), _numbered(second)]
    if not inside[0] and not inside[1]:
        yield "", first, second
        return
    if inside[0].keys() != inside[1].keys():
        only = sorted(inside[0].keys() ^ inside[1].keys())
        raise TraceError(
            f"{first} and {second} do not hold the same steps and ranks: {', '.join(only)} on one side only"
        )
    for name in sorted(inside[0], key=lambda n: int(n.rpartition("_")[2])):
        for more, one, two in _matched(inside[0][name], inside[1][name]):
            yield f" {name}{more}", one, two


def _numbered(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise TraceError(
            f"{folder} does not exist; dump the model there first (try_dump, dump_report, dump_params)"
        )
    return {p.name: p for p in folder.iterdir() if re.fullmatch(r"(step|rank)_\d+", p.name) and p.is_dir()}


def check_dataloader(first_loader: Any, second_loader: Any, **options: Any) -> bool:
    """Whether two loaders give equal batches, and as many. ``options``: ``atol``, ``rtol``, ``compare_mode``."""
    tolerance = tolerance_of(options)
    end = object()
    for number, (one, two) in enumerate(
        zip_longest(_batches(first_loader), _batches(second_loader), fillvalue=end)
    ):
        if one is end or two is end:
            log(
                f"the {'first' if one is end else 'second'} loader ends after {number} batches, the other does not"
            )
            return False
        ours, theirs = _arrays(one), _arrays(two)
        if len(ours) != len(theirs):
            log(f"batch {number}: {len(ours)} arrays in the first, {len(theirs)} in the second")
            return False
        if not ours:
            raise ComparisonError(f"batch {number} holds no tensor or array to compare")
        for place, (a, b) in enumerate(zip(ours, theirs)):
            if not tolerance.agree(a, b):
                log(f"batch {number}, array {place}: {list(a.shape)} and {list(b.shape)} differ")
                return False
    return True


def _batches(loader: Any) -> Iterator[Any]:
    return iter(loader() if callable(loader) and not hasattr(loader, "__iter__") else loader)


def _arrays(batch: Any) -> list[Any]:
    import numpy as np

    found = [f.to_numpy(t) for f in frameworks.all_loaded() for t in leaves(f, batch)]
    if found:
        return found
    if isinstance(batch, np.ndarray):
        return [batch]
    items = (
        batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else ()
    )
    return [a for item in items for a in _arrays(item)]
