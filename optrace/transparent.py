"""Frames of ours on the program's stack that leave no mark in its warnings and tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

# warnings.warn(stacklevel=2) and up passes over frames of the import machinery, known to it by these
# two words in the file name, so a warning raised inside a recorded function still names its caller.
FILE = "<optrace:importlib._bootstrap>"


def transparent(function: _F) -> _F:
    """Mark a function of ours that stands between the program and a framework."""
    function.__code__ = function.__code__.replace(co_filename=FILE)
    return function


@transparent
def hide(error: BaseException) -> None:
    """Drop our frames from the top of ``error``'s traceback; call it, then ``raise``, in the outermost one.

    A bare ``raise`` adds no new entry for its own frame, so what the program sees starts at its own call.
    """
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename == FILE:
        entry = entry.tb_next
    error.__traceback__ = entry
