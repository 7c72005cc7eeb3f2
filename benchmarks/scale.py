"""Two long runs of small calls, recorded to disk and compared from there: time, memory, growth.

Each comparison runs in a process of its own, whose peak of memory is reported.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import optrace

CALLS = (10_000, 30_000, 100_000)
TARGET = "at 1,000,000 calls 90 s and 2 GiB, exponent 1.1"
LAYERS = 8


def record(framework: str, calls: int, folder: Path) -> None:
    """A loop of steps on new data: linear, tanh, a residual; ``calls`` of them altogether."""
    module = importlib.import_module(framework)
    functional = importlib.import_module(f"{framework}.nn.functional")
    make = module.tensor if framework == "torch" else module.to_tensor
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((8, 8)).astype(np.float32) / 2 for _ in range(LAYERS)]
    mine = [make(w if framework == "torch" else w.T.copy()) for w in weights]
    with optrace.trace(level="stats", out=folder, frameworks=[framework]) as trace:
        while len(trace.calls) < calls:
            x = make(rng.standard_normal((4, 8)).astype(np.float32))
            for w in mine:
                x = x + functional.tanh(functional.linear(x, w))


def compare(folder: Path, answer: Any) -> None:
    start = time.perf_counter()
    report = optrace.diff(folder / "torch", folder / "paddle")
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer.put((took, peak, bool(report), report.evidence.compared))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, nargs="+", default=CALLS, help="of each side")
    spawn = multiprocessing.get_context("spawn")
    points = []
    for calls in parser.parse_args().calls:
        with tempfile.TemporaryDirectory() as place:
            for framework in ("torch", "paddle"):
                side = spawn.Process(target=record, args=(framework, calls, Path(place) / framework))
                side.start()
                side.join()
            answer = spawn.Queue()
            worker = spawn.Process(target=compare, args=(Path(place), answer))
            worker.start()
            took, peak, aligned, compared = answer.get()
            worker.join()
        assert aligned, f"two equal runs of {calls} calls are not aligned"
        points.append((math.log(calls), math.log(took)))
        print(f"{calls:9,} calls a side {took:8.1f} s {peak:6.0f} MiB ({compared:,} compared)", flush=True)
    if len(points) > 1:
        print(f"grows with calls to the power {np.polyfit(*zip(*points), 1)[0]:.2f} (target: {TARGET})")


if __name__ == "__main__":
    main()
