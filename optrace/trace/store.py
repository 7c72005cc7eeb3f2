"""A trace on disk: ``write`` and ``read`` a folder. See docs/trace-format.md."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from optrace.errors import TraceError
from optrace.trace.model import Trace
from optrace.trace.reading import read_folder
from optrace.trace.writer import META, Writer, is_trace_file


def read(path: str | Path) -> Trace:
    """The trace saved in folder ``path``; values are read from disk as they are asked for.

    A run that was killed is readable up to its last complete record; ``trace.meta["incomplete"]`` then
    says so. Raises ``TraceError`` for a folder that is no trace or a damaged one.
    """
    return read_folder(Path(path))


def write(trace: Trace, path: str | Path) -> None:
    """Save ``trace`` as folder ``path``; an older trace there is replaced once the new one is complete.

    Raises ``TraceError`` when ``path`` holds anything else or the disk is full; nothing is left there then.
    """
    folder = Path(path)
    _check(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        _fill(trace, partial)
        _move(partial, folder)
    except OSError as error:
        raise TraceError(f"the trace can't be written to {folder}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def is_trace(folder: Path) -> bool:
    """Whether ``folder`` holds a trace, complete or not."""
    return (folder / META).is_file()


def _check(folder: Path) -> None:
    """Refuse to replace what is no trace."""
    if not folder.exists():
        return
    names = os.listdir(folder) if folder.is_dir() else [""]
    others = [name for name in names if not is_trace_file(name)]
    if others or (names and META not in names):
        raise TraceError(f"{folder} is in use for something else; give a folder of its own for the trace")


def _fill(trace: Trace, folder: Path) -> None:
    writer = Writer(folder, trace.meta)
    for call in list(trace.calls):
        writer.begin(call)
        writer.end(call)
    for key, found in list(trace.fingerprints.items()):
        writer.stats(key, found)
    for key in trace.value_keys():
        value = trace.value_of(key)
        if value is not None:
            writer.value(key, value)
    writer.finish(trace.full_meta(), trace.outputs, trace.errors)
    if writer.failed is not None:
        raise writer.failed


def _move(partial: Path, folder: Path) -> None:
    """Put the new folder in place; the old one goes only when that has worked."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
