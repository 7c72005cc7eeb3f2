"""Watches what reading one input does: its time, its memory, and whether it writes or starts anything."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from optrace.errors import OptraceError

# Seconds and bytes that one small input may take.
MOST_SECONDS = 5.0
MOST_MEMORY = 2 << 30

_STARTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.spawn",
    "subprocess.Popen",
    "socket.connect",
    "ctypes.dlopen",
)
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.link",
    "os.symlink",
    "os.truncate",
    "shutil.",
)


class Broken(AssertionError):
    """A reader did what none may do."""


class _Watch:
    on = False
    seen: list[str] = []  # noqa: RUF012 - one hook for the whole process: audit hooks stay

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writes = (
            event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if event.startswith(_STARTS) or event.startswith(_CHANGES) or writes:
            self.seen.append(f"{event} {args!r}"[:200])


_watch = _Watch()
_hooked = False


def install() -> None:
    """Watch this process from now on; audit hooks can't be taken away again."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_watch.hook)
        _hooked = True


def check(read: Callable[[Path], None], folder: Path) -> str:
    """Read one input: ``"read"`` or the name of our error. Raises ``Broken`` for whatever else happens."""
    _watch.seen.clear()
    started, before = time.perf_counter(), _peak()
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    _watch.on = True
    try:
        read(folder)
        outcome = "read"
    except OptraceError as error:
        outcome = type(error).__name__
        if not str(error):
            raise Broken("an error without a text") from error
    except Broken:
        raise
    except BaseException as error:
        raise Broken(f"{type(error).__name__}: {error}"[:300]) from error
    finally:
        _watch.on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    if _watch.seen:
        raise Broken(f"reading did more than reading: {_watch.seen[:3]}")
    if _peak() - before > MOST_MEMORY:
        raise Broken(f"{(_peak() - before) >> 20} MiB of memory")
    if time.perf_counter() - started > MOST_SECONDS:
        raise Broken("too long")
    return outcome


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise Broken(f"not done after {MOST_SECONDS} s")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
