"""What tracing costs: the ratio of traced to untraced time, per level, framework and model.

Traced and untraced runs alternate, so that a busy machine slows both; the figures are medians. What it
takes to start and end a trace is shown apart.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import optrace
from benchmarks.workloads import THREADS, Workload, workloads

LEVELS = ("meta", "stats", "full")
# At most this much of the untraced time, for training and forward alone; of the tiny model both alike.
TARGETS = {"meta": (1.05, 1.08, 1.4), "stats": (1.25, 1.4, 2.5), "full": (1.5, 1.9, None)}


clock = time.perf_counter


class Figures(NamedTuple):
    """``first``: the first traced run of a trace; ``around``: starting and ending the trace."""

    plain: float
    traced: float
    first: float
    around: float
    calls: int


def seconds(run: Callable[[], Any]) -> float:
    start = clock()
    run()
    return clock() - start


def measure(run: Callable[[], Any], level: str, runs: int, out: Path | None = None) -> Figures:
    """Medians of ``runs`` rounds, in seconds, and the calls of one traced run."""
    plain, traced, firsts, around, calls = [], [], [], [], 0
    run()
    for _ in range(runs):
        plain.append(seconds(run))
        start = clock()
        with optrace.trace(level=level, out=out) as trace:
            first = seconds(run)  # names the parameters, describes and summarises each once
            inside = seconds(run)
        around.append(clock() - start - inside - first)
        firsts.append(first)
        traced.append(inside)
        calls = len(trace.calls) // 2
        assert not trace.errors, trace.errors
        del trace
        gc.collect()
    return Figures(*map(statistics.median, (plain, traced, firsts, around)), calls)


def table(framework: str, chosen: list[Workload], levels: tuple[str, ...], to_disk: bool) -> None:
    for workload in chosen:
        for phase, run in (("forward", workload.forward), ("forward+backward", workload.training)):
            for level in levels:
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "trace" if to_disk else None
                    plain, traced, first, around, calls = measure(run, level, workload.runs, out)
                training, forward, tiny = TARGETS[level]
                target = (
                    tiny if workload.name.startswith("tiny") else forward if phase == "forward" else training
                )
                print(
                    f"{framework:7} {workload.name:13} {phase:17} {level:6}"
                    f"{plain * 1e3:9.2f} ms {traced * 1e3:9.2f} ms {traced / plain:6.2f}"
                    f" (first run {first / plain:6.2f})"
                    f"  (target {target or '-'})  {calls:4} calls {(traced - plain) / calls * 1e6:7.1f} us/call"
                    f"  start+end {around * 1e3:6.0f} ms",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", action="append", choices=["torch", "paddle"])
    parser.add_argument("--workload", default="", help="only models whose name holds this text")
    parser.add_argument("--level", action="append", choices=LEVELS)
    parser.add_argument("--out", action="store_true", help="write the traces to disk as they are recorded")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of the frameworks")
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, for a machine that is busy otherwise"
    )
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock = time.process_time
    for framework in options.framework or ["torch", "paddle"]:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
        importlib.import_module(framework)
        chosen = [w for w in workloads(framework) if options.workload in w.name]
        table(framework, chosen, tuple(options.level or LEVELS), options.out)


if __name__ == "__main__":
    main()
