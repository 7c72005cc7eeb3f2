"""One hub per framework: its patches are installed for the first trace, shared by all, removed with the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from optrace.frameworks.base import Framework, Net, Region
from optrace.intercept.divert import Diversion
from optrace.intercept.fan import Fan
from optrace.intercept.late_import import when_ready
from optrace.intercept.observer import Observer
from optrace.intercept.patches import Patches, TargetPatches
from optrace.transparent import transparent

# Frames of ours between a region's caller and its original: the diverted function and ``_opaque``.
_FRAMES = 3


class _Thread(threading.local):
    """What the net is to one thread."""

    def __init__(self) -> None:
        self.net: Net | None = None
        self.depth = 0  # how many traces and calls want it
        self.lifted = 0  # how many opaque regions this thread is in


class Hub:
    """Hands the calls of one framework to whoever observes; says when patches come and go."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._observers: list[Observer] = []
        self._observer: Observer | None = None  # all of them as one
        self._lock = threading.RLock()
        self._patches: TargetPatches | None = None
        self._gates = Patches()  # around regions; they stay while the others are lifted
        self._net: Net | None = None
        self._thread = _Thread()
        self._lifted = 0  # by all threads
        self._static = False
        self._regions: set[int] = set()
        self._cancel: list[Callable[[], None]] = []

    # -- coming and going ------------------------------------------------------------------------

    def add(self, observer: Observer) -> None:
        """Tell ``observer`` of every call from now on."""
        with self._lock:
            if self._patches is None:
                self._install(observer)
            # Who makes calls himself stands closest to them: the others are to see them as the program's.
            self._set(sorted([*self._observers, observer], key=lambda o: getattr(o, "innermost", False)))

    def remove(self, observer: Observer) -> None:
        with self._lock:
            self._set([o for o in self._observers if o is not observer])
            if not self._observers:
                self._uninstall()

    def forget(self) -> None:
        """In a forked child: whoever observed lives in the parent."""
        self._lock = threading.RLock()
        self._set([])
        self._uninstall()
        self._drop_net()

    def _set(self, observers: list[Observer]) -> None:
        self._observers = observers
        self._observer = None if not observers else observers[0] if len(observers) == 1 else Fan(observers)

    def _install(self, observer: Observer) -> None:
        patches = TargetPatches(self.framework, self.receive, self._enter_module)
        net = self.framework.net(self, patches.originals)
        patches.add(net)
        self._patches, self._net = patches, net
        try:
            self._find_regions()
            for name in self.framework.late_modules():
                self._cancel.append(when_ready(name, lambda _: self._find_regions()))
            self._static = self.framework.is_static()
            if self._static:
                observer.opaque(f"{self.framework.name}: static graph")
            self._gates.apply()
            self._settle()
        except BaseException:
            self._uninstall()
            raise

    def _uninstall(self) -> None:
        while self._cancel:
            self._cancel.pop()()
        if self._patches is not None:
            self._patches.undo()
        self._gates.undo()
        self._patches, self._net, self._gates = None, None, Patches()
        self._regions.clear()
        self._lifted = 0

    def _settle(self) -> None:
        """Apply the patches or undo them, as things stand."""
        if self._patches is not None:
            if self._lifted or self._static:
                self._patches.undo()
            else:
                self._patches.apply()

    # -- the net below, thread by thread -----------------------------------------------------------

    def enter_thread(self) -> None:
        """Hang the net under this thread until ``leave_thread`` has been called as often."""
        thread = self._thread
        if thread.net is not self._net:
            self._drop_net()  # left here by a trace that was ended from another thread
            thread.net = self._net
        thread.depth += 1
        if thread.depth == 1 and thread.net is not None and not thread.lifted:
            thread.net.__enter__()

    def leave_thread(self) -> None:
        thread = self._thread
        thread.depth = max(thread.depth - 1, 0)
        if not thread.depth:
            self._drop_net()

    def _drop_net(self) -> None:
        thread = self._thread
        if thread.net is not None:
            thread.net.__exit__(None, None, None)
        thread.net, thread.depth = None, 0

    # -- calls -----------------------------------------------------------------------------------

    @transparent
    def receive(
        self,
        api: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Every call arrives here; one through a wrapper that outlived its trace goes straight on."""
        observer = self._observer
        if observer is None:
            return (run or function)(*args, **kwargs)
        return observer.call(api, function, args, kwargs, run)

    @transparent
    def _enter_module(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        observer = self._observer
        if observer is None or not args:
            return function(*args, **kwargs)
        module, thread = args[0], self._thread
        hidden = self.framework.hidden(module)
        if hidden is not None:
            observer.opaque(hidden)
        if thread.depth:
            return observer.module_call(module, function, args[1:], kwargs)
        # A thread that no trace was started in: the net hangs for the time of the call.
        self.enter_thread()
        try:
            return observer.module_call(module, function, args[1:], kwargs)
        finally:
            self.leave_thread()

    def is_open(self, function: Any) -> bool:
        """Whether a call that the net sees is known already, or nobody's business."""
        observer = self._observer
        return observer is None or observer.is_open(function)

    @transparent
    def dispatched(self, function: Callable[..., Any], run: Callable[..., Any], args: Any) -> Any:
        """``run(*args)``, in which a tensor subclass makes the call ``function`` its own way."""
        observer = self._observer
        return run(*args) if observer is None else observer.dispatched(function, run, args)

    # -- regions ---------------------------------------------------------------------------------

    def _find_regions(self) -> None:
        with self._lock:
            for region in self.framework.regions():
                self._add_region(region)

    def _add_region(self, region: Region) -> None:
        if self._patches is None or not isinstance(region.function, FunctionType):
            return
        if id(region.function) not in self._regions:
            self._regions.add(id(region.function))
            self._gates.add(Diversion(region.function, partial(self._enter_region, region)))

    @transparent
    def _enter_region(self, region: Region, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        observer = self._observer
        if observer is None or observer.busy:
            return function(*args, **kwargs)
        if region.kind == "thread":
            return self._on_thread(function, args, kwargs)
        if region.kind == "quiet":
            return observer.quietly(function, args, kwargs)
        if region.kind == "data":
            return observer.in_phase("data", function, args, kwargs)
        if region.kind == "mode":
            return self._switch(observer, function, args, kwargs)
        if region.kind == "opaque" and not self._thread.lifted:
            observer.opaque(
                f"{region.name}: {region.describe(args, kwargs)}" if region.describe else region.name
            )
        return self._opaque(region, function, args, kwargs)

    @transparent
    def _on_thread(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if getattr(getattr(args[0], "_target", None), "__module__", None) == "concurrent.futures.thread":
            return function(
                *args, **kwargs
            )  # a pool's thread, which may outlive the trace: each task is a region
        self.enter_thread()
        try:
            return function(*args, **kwargs)
        finally:
            self.leave_thread()

    @transparent
    def _opaque(self, region: Region, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if region.frames is not None:
            kwargs = {**kwargs, region.frames: kwargs.get(region.frames, 0) + _FRAMES}
        self._lift()
        try:
            result = function(*args, **kwargs)
        finally:
            self._land()
        compiled = self.framework.compiled(result)
        if compiled is not None:
            with self._lock:
                self._add_region(compiled)
        return result

    def _lift(self) -> None:
        thread = self._thread
        thread.lifted += 1
        if thread.lifted == 1 and thread.depth and thread.net is not None:
            thread.net.__exit__(None, None, None)
        with self._lock:
            self._lifted += 1
            self._settle()

    def _land(self) -> None:
        with self._lock:
            self._lifted = max(self._lifted - 1, 0)
            self._settle()
        thread = self._thread
        thread.lifted -= 1
        if not thread.lifted and thread.depth and thread.net is not None:
            thread.net.__enter__()

    @transparent
    def _switch(self, observer: Observer, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        with self._lock:
            static = self.framework.is_static()
            if static != self._static:
                self._static = static
                if static:
                    observer.opaque(f"{self.framework.name}: static graph")
                self._settle()
        return result


_hubs: dict[str, Hub] = {}
_hubs_lock = threading.Lock()


def hub_of(framework: Framework) -> Hub:
    """The one hub of ``framework``."""
    with _hubs_lock:
        if framework.name not in _hubs:
            _hubs[framework.name] = Hub(framework)
        return _hubs[framework.name]


def _forget_all() -> None:
    for hub in _hubs.values():
        hub.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
