"""Feeds damaged files to the readers, each input reproducible by its number."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import guard
from tests.fuzz.readers import READERS, Reader

# The inputs lie in memory, where there is such a folder.
_MEMORY = Path("/dev/shm")


def feed(reader: Reader, numbers: range, folder: Path) -> Iterator[tuple[int, str, str]]:
    """(number, outcome, complaint) of each input; the last input of a complaint stays in ``folder``."""
    guard.install()
    reader.make(folder)
    files = {name: (folder / name).read_bytes() for name in reader.victims}
    reader.read(folder)  # what is valid is read; lazy imports are done
    for number in numbers:
        victim, data = reader.damage(random.Random(f"{reader.name} {number}"), files)
        path = folder / victim
        path.write_bytes(data)
        try:
            yield number, guard.check(reader.read, folder), ""
        except guard.Broken as broken:
            kept = Path(tempfile.mkdtemp(prefix="optrace-fuzz-")) / "input"
            shutil.copytree(folder, kept)
            cause = broken.__cause__
            place = ""
            if cause is not None and cause.__traceback__ is not None:
                last = cause.__traceback__
                while last.tb_next is not None:
                    last = last.tb_next
                place = f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
            yield number, "BROKEN", f"{broken}{place}; kept in {kept}"
        path.write_bytes(files[victim])


def count(reader: Reader, numbers: range, folder: Path) -> tuple[Counter[str], list[str]]:
    """How often each outcome came, and the complaints."""
    outcomes: Counter[str] = Counter()
    complaints = []
    for number, outcome, complaint in feed(reader, numbers, folder):
        outcomes[outcome] += 1
        if complaint:
            complaints.append(f"{reader.name}, input {number}: {complaint}")
    return outcomes, complaints


def chunk(index: int, start: int, stop: int) -> tuple[int, dict[str, int], list[str]]:
    """Some inputs of one reader, in a process of a pool."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        outcomes, complaints = count(READERS[index], range(start, stop), Path(folder))
    return index, dict(outcomes), complaints
