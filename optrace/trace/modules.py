"""Where in the module tree a call is made."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from optrace.frameworks.base import Framework
from optrace.trace.identity import Identities


class ModulePaths:
    """Paths of modules below the root that was called first; names parameters on the way."""

    def __init__(self, identities: Identities, buffer: Callable[[Framework, str, Any], None]) -> None:
        self._identities = identities
        self._buffer = buffer
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}

    def enter(self, framework: Framework, module: Any, is_root: bool) -> str:
        """The path of ``module``; a root's whole tree is named on its first call."""
        found = self._paths.get(id(module))
        if found is not None and found[0]() is module:
            return found[1]
        if not is_root:
            return type(module).__name__  # made on the fly inside a forward
        for name, child in framework.named_modules(module):
            known = self._paths.get(id(child))
            if known is None or known[0]() is not child:
                self._paths[id(child)] = (weakref.ref(child), name)
        for name, tensor in framework.named_parameters(module):
            if tensor is not None:
                self._identities.name(tensor, name)
        for name, tensor in framework.named_buffers(module):
            if tensor is not None:
                self._identities.name(tensor, name)
                self._buffer(framework, name, tensor)
        return self._paths[id(module)][1]
