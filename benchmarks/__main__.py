"""All measurements, one after the other; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

SCRIPTS = ("import_time", "tracing", "diffing", "scale", "storage", "memory")

for script in SCRIPTS:
    print(f"== {script}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{script}"], check=True)
