"""``python -m tests.fuzz --inputs 1000000``: many inputs, a line for each reader."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.fuzz.readers import READERS
from tests.fuzz.run import chunk

# Inputs per task of a worker.
_CHUNK = 5000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many in all")
    parser.add_argument("--start", type=int, default=0, help="number of the first input of each reader")
    parser.add_argument("--reader", default="", help="only readers whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    chosen = [i for i, r in enumerate(READERS) if given.reader in r.name]
    shares = sum(READERS[i].share for i in chosen)
    tasks = []
    for i in chosen:
        total = -(-given.inputs * READERS[i].share // shares)
        for start in range(given.start, given.start + total, _CHUNK):
            tasks.append((i, start, min(start + _CHUNK, given.start + total)))
    began, done = time.monotonic(), 0
    totals: dict[int, dict[str, int]] = {i: {} for i in chosen}
    complaints: list[str] = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for index, outcomes, found in pool.map(chunk, *zip(*tasks)):
            for outcome, times in outcomes.items():
                totals[index][outcome] = totals[index].get(outcome, 0) + times
            done += sum(outcomes.values())
            complaints += found
            if sys.stderr.isatty():
                print(f"\r{done:,} inputs", end="", file=sys.stderr)
    for i in chosen:
        said = ", ".join(f"{times:,} {outcome}" for outcome, times in sorted(totals[i].items()))
        print(f"{READERS[i].name:<14} {sum(totals[i].values()):>9,}  {said}")
    print(f"{done:,} inputs in {time.monotonic() - began:.0f} s, {len(complaints)} complaints")
    for complaint in complaints[:50]:
        print(f"  {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
