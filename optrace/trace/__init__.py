"""Recording: ``optrace.trace(...)`` is the context manager, ``optrace.trace.*`` its parts.

The package is callable so that the public function and the subpackage can share their name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optrace.trace.model import Trace
    from optrace.trace.selection import Selection
    from optrace.trace.session import trace as _Session


class _CallablePackage(ModuleType):
    def __call__(
        self,
        level: str = "stats",
        out: str | Path | None = None,
        frameworks: Iterable[str] | None = None,
        select: Selection | None = None,
    ) -> _Session:
        """Record every framework call made inside the ``with`` block; see ``optrace.trace.session.trace``."""
        from optrace.trace.session import trace

        return trace(level, out, frameworks, select)

    def load(self, path: str | Path) -> Trace:
        """The trace saved in folder ``path``; see ``optrace.trace.store.read``."""
        from optrace.trace.store import read

        return read(path)


sys.modules[__name__].__class__ = _CallablePackage
