"""Several traces at once: every call is handed from one observer to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from optrace.intercept.observer import Observer
from optrace.transparent import transparent


class Fan:
    """An ``Observer`` made of others; the one that came first is outermost."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = tuple(observers)
        self._local = threading.local()

    @property
    def busy(self) -> bool:
        # What one observer does for itself is no call of the program to the others.
        return any(o.busy for o in self._observers)

    def is_open(self, function: Any) -> bool:
        return any(o.is_open(function) for o in self._observers)

    @transparent
    def call(
        self,
        api: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:
        run = run or function
        stack = self._local.__dict__.setdefault("functions", [])
        if self.busy or (stack and stack[-1] is function):
            return run(*args, **kwargs)
        for observer in reversed(self._observers):
            run = _link(observer, api, function, run)
        depth = len(stack)
        try:
            stack.append(function)
            return run(*args, **kwargs)
        finally:
            del stack[depth:]

    @transparent
    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        for observer in reversed(self._observers):
            function = partial(_with_module, observer, function)
        return function(module, *args, **kwargs)

    @transparent
    def dispatched(self, function: Callable[..., Any], run: Callable[..., Any], args: Any) -> Any:
        for observer in self._observers:
            run = partial(_dispatched, observer, function, run)
        return run(*args)

    @transparent
    def quietly(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        for observer in reversed(self._observers):
            function = partial(_unpacked, observer.quietly, function)
        return function(*args, **kwargs)

    @transparent
    def in_phase(self, phase: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        for observer in reversed(self._observers):
            function = partial(_unpacked, partial(observer.in_phase, phase), function)
        return function(*args, **kwargs)

    def opaque(self, name: str) -> None:
        for observer in self._observers:
            observer.opaque(name)


def _link(
    observer: Observer, api: str, function: Callable[..., Any], inner: Callable[..., Any]
) -> Callable[..., Any]:
    @transparent
    def run(*args: Any, **kwargs: Any) -> Any:
        return observer.call(api, function, args, kwargs, inner)

    return run


@transparent
def _unpacked(call: Callable[..., Any], function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(function, args, kwargs)


@transparent
def _with_module(
    observer: Observer, function: Callable[..., Any], module: Any, *args: Any, **kwargs: Any
) -> Any:
    return observer.module_call(module, function, args, kwargs)


@transparent
def _dispatched(observer: Observer, function: Callable[..., Any], run: Callable[..., Any], *args: Any) -> Any:
    return observer.dispatched(function, run, args)
