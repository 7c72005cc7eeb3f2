"""How far long work has come, told to whoever shows it (the command line does); nobody by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# done, total (0: not known), what is being worked on
Shown = Callable[[int, int, str], None]

_shown: ContextVar[Shown | None] = ContextVar("optrace_progress", default=None)


@contextmanager
def shown_by(show: Shown) -> Iterator[None]:
    """Tell ``show`` of the progress of all work in here."""
    before = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(before)


def tell(done: int, total: int, what: str) -> None:
    """``done`` of ``total`` calls are through ``what``."""
    show = _shown.get()
    if show is not None:
        show(done, total, what)
