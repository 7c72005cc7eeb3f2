"""What ``import optrace`` costs in a fresh process, in milliseconds, and that it brings no framework."""

from __future__ import annotations

import statistics
import subprocess
import sys

RUNS = 9
TARGET = 60.0
CODE = """
import sys, time
start = time.perf_counter()
import optrace
print((time.perf_counter() - start) * 1e3, "torch" in sys.modules or "paddle" in sys.modules)
"""


def main() -> None:
    times = []
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
        took, heavy = done.stdout.split()
        assert heavy == "False"
        times.append(float(took))
    print(
        f"import optrace: median {statistics.median(times):.1f} ms, best {min(times):.1f} (target {TARGET:.0f})"
    )


if __name__ == "__main__":
    main()
