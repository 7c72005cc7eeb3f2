"""Who is told of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Observer(Protocol):
    """Each method makes the call itself and returns its result."""

    @property
    def busy(self) -> bool:
        """Whether this thread is in the middle of the observer's own tensor work."""

    def is_open(self, function: Any) -> bool:
        """Whether a call of ``function`` that comes up from below has been reported already."""

    def call(
        self,
        api: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """A call of ``function`` under the public name ``api``; made through ``run`` where that is given."""

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """``function(module, *args, **kwargs)``, a module's ``__call__``."""

    def dispatched(self, function: Callable[..., Any], run: Callable[..., Any], args: Any) -> Any:
        """``run(*args)``, in which a tensor subclass makes the call ``function`` its own way."""

    def quietly(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call in which nothing is to be recorded: the printing of a tensor."""

    def in_phase(self, phase: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call whose inner calls belong to ``phase``."""

    def opaque(self, name: str) -> None:
        """What follows under ``name`` can't be seen."""
