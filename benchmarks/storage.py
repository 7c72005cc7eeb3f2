"""How fast values are stored, against safetensors' own ``save_file`` of the same bytes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from optrace.trace.shards import ShardWriter

TARGET = 0.7
# Bytes of a value, and how many.
SIZES = ((1 << 16, 4096), (1 << 20, 384), (1 << 22, 96))
RUNS = 5


def ours(arrays: list[np.ndarray], folder: Path) -> None:
    writer = ShardWriter(folder)
    for array in arrays:
        writer.add(array)
    writer.close()


def theirs(arrays: list[np.ndarray], folder: Path) -> None:
    save_file({str(i): array for i, array in enumerate(arrays)}, folder / "all.safetensors")


def seconds(store: Callable[[list[np.ndarray], Path], None], arrays: list[np.ndarray]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store(arrays, Path(folder))
        return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    for size, count in SIZES:
        arrays = [rng.standard_normal(size // 4).astype(np.float32) for _ in range(count)]
        runs = [(seconds(ours, arrays), seconds(theirs, arrays)) for _ in range(RUNS)]
        rate = size * count / statistics.median(mine for mine, _ in runs) / 2**20
        ratio = statistics.median(plain / mine for mine, plain in runs)
        print(f"{size >> 10:5} KiB x {count}: {rate:6.0f} MiB/s, {ratio:.2f} of save_file (target {TARGET})")


if __name__ == "__main__":
    main()
