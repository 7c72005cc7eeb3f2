"""Peak of memory of ``auto_diff`` against running both models untraced, each in a process of its own.

An encoder of BERT-base's size (12 layers, d=768) in both frameworks.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import resource
from typing import Any

import numpy as np

import optrace

TARGET = 1.6
WIDTH, HEADS, FEEDFORWARD, LAYERS = 768, 12, 3072, 12


def encoder(framework: str) -> Any:
    nn = importlib.import_module(f"{framework}.nn")
    given = {"batch_first": True} if framework == "torch" else {}
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, FEEDFORWARD, dropout=0.0, **given)
    rest = {"enable_nested_tensor": False} if framework == "torch" else {}
    model = nn.TransformerEncoder(layer, LAYERS, **rest)
    model.train()
    return model


def untraced(x: np.ndarray, answer: Any) -> None:
    kept = []
    for framework in ("torch", "paddle"):
        module = importlib.import_module(framework)
        model = encoder(framework)
        kept.append((model, model((module.from_numpy if framework == "torch" else module.to_tensor)(x))))
    answer.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, True))


def compared(x: np.ndarray, answer: Any) -> None:
    report = optrace.auto_diff(encoder("torch"), encoder("paddle"), (x,), train=True)
    answer.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, bool(report)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((options.batch, options.length, WIDTH)).astype(np.float32)
    spawn = multiprocessing.get_context("spawn")
    peaks = []
    for what in (untraced, compared):
        answer = spawn.Queue()
        worker = spawn.Process(target=what, args=(x, answer))
        worker.start()
        peak, aligned = answer.get()
        worker.join()
        assert aligned, "two equal encoders are not aligned"
        peaks.append(peak)
        print(f"{what.__name__:9} {peak:7.0f} MiB", flush=True)
    print(f"ratio {peaks[1] / peaks[0]:.2f} (target {TARGET})")


if __name__ == "__main__":
    main()
