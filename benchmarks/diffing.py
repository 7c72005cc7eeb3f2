"""How the time to compare two traces grows with their number of calls."""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import time
from typing import Any

import numpy as np

import optrace
from optrace.diagnose.run import run_model

CALLS = (100, 300, 1000)
TARGET = 1.1


def model(framework: str, calls: int) -> Any:
    """A stack of linear layers and activations that makes about ``calls`` calls; every weight is its own."""
    nn = importlib.import_module(f"{framework}.nn")
    layers: list[Any] = []
    for _ in range(calls // 2):
        layers += [nn.Linear(16, 16), nn.Tanh()]
    return nn.Sequential(*layers)


def carry(base: Any, raw: Any) -> None:
    """The same weights on both sides."""
    torch, rng = importlib.import_module("torch"), np.random.default_rng(0)
    for one, other in zip(base.parameters(), raw.parameters()):
        values = (rng.standard_normal(tuple(one.shape)) / 4).astype(np.float32)
        with torch.no_grad():
            one.copy_(torch.from_numpy(values))
        other.set_value(values.T.copy())


def seconds(calls: int, level: str) -> tuple[float, int]:
    base, raw = model("torch", calls), model("paddle", calls)
    carry(base, raw)
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    traces = run_model(base, x, level=level), run_model(raw, x, level=level)
    gc.collect()
    start = time.perf_counter()
    report = optrace.diff(*traces)
    took = time.perf_counter() - start
    assert bool(report), report
    return took, sum(len(t.calls) for t in traces)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, nargs="+", default=CALLS)
    options = parser.parse_args()
    for level in ("full", "stats"):
        points = []
        for calls in options.calls:
            took, both = seconds(calls, level)
            points.append((math.log(both), math.log(took)))
            print(f"{level:5} {both:8} calls {took:8.3f} s {took / both * 1e6:8.1f} us/call", flush=True)
        exponent = np.polyfit(*zip(*points), 1)[0]
        print(f"{level:5} grows with calls to the power {exponent:.2f} (target {TARGET})")


if __name__ == "__main__":
    main()
