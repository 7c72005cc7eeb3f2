"""The user's source line behind a call: the innermost frame that is not the frameworks' or ours."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Protocol

from optrace.trace.records import Site
from optrace.transparent import FILE

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Model code that ships inside a framework is to be debugged like any other model code.
_MODELS_INSIDE = ("/paddle/vision/models/", "/torch/testing/")

_library = sysconfig.get_paths()["stdlib"].replace(os.sep, "/") + "/"
_verdicts: dict[CodeType, bool] = {}
_sites: dict[tuple[CodeType, int], Site] = {}


def _is_users(code: CodeType) -> bool:
    raw = code.co_filename
    if raw.startswith(_OWN) or raw == FILE:
        return False
    name = raw.replace(os.sep, "/")
    if any(part in name for part in _MODELS_INSIDE):
        return True
    if name.startswith(("<frozen", "<__array_function__")):
        return False
    if "/site-packages/" in name or "/dist-packages/" in name:
        inside = name.replace("/dist-packages/", "/site-packages/").rpartition("/site-packages")[2]
        return not inside.startswith(("/torch/", "/paddle/", "/wrapt/"))
    return not (name.startswith(_library) and name.endswith(("/contextlib.py", "/functools.py", "/runpy.py")))


# Not looked for yet.
UNKNOWN: Any = object()


class Open(Protocol):
    """A module's call under way: a frame of ours inside it, and the user's line that it comes from."""

    frame: FrameType
    site: Any


def find(depth: int = 1, modules: Sequence[Open] = ()) -> Site | None:
    """The site of the nearest user frame, counted from ``depth`` frames above the caller.

    ``modules``, outermost first, are asked on the way, so that nothing is walked twice: stacks are deep
    where layers call layers.
    """
    frame: FrameType | None = sys._getframe(depth)
    verdicts = _verdicts
    at = len(modules) - 1
    gate = modules[at].frame if at >= 0 else None
    passed: list[Open] = []
    site: Site | None = None
    while frame is not None:
        if frame is gate:
            module = modules[at]
            if module.site is not UNKNOWN:
                site = module.site
                break
            passed.append(module)
            at -= 1
            gate = modules[at].frame if at >= 0 else None
        code = frame.f_code
        users = verdicts.get(code)
        if users is None:
            users = verdicts[code] = _is_users(code)
        if users:
            key = (code, frame.f_lasti)
            site = _sites.get(key) or _sites.setdefault(key, _site(frame, frame.f_lineno))
            break
        frame = frame.f_back
    for module in passed:
        module.site = site
    return site


def of_error(error: BaseException) -> Site | None:
    """The user's innermost line that an exception passed on its way, wherever it was raised."""
    found: Site | None = None
    traceback = error.__traceback__
    while traceback is not None:
        if _is_users(traceback.tb_frame.f_code):
            found = _site(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _site(frame: FrameType, line: int) -> Site:
    code = frame.f_code
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return Site(code.co_filename, line, code.co_qualname, text)
