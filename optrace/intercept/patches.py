"""Install wrappers over a framework's callables and put the very same objects back."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from optrace.frameworks.base import Framework, Target
from optrace.intercept.divert import Diversion
from optrace.intercept.wrappers import Observer, recording

_MISSING = object()


class Patches:
    """All patches of one framework for one observer."""

    def __init__(self, framework: Framework, observer: Observer) -> None:
        self.framework = framework
        self.observer = observer
        self._undo: list[Callable[[], None]] = []
        self._diverted: dict[int, Diversion] = {}
        # id of a replaced or diverted callable -> the callable that behaves as before.
        self.originals: dict[int, Callable[..., Any]] = {}
        self.count = 0

    def install(self) -> None:
        """Patch every target; on failure everything is put back before the error goes on."""
        try:
            for target in list(self.framework.targets()):
                self._patch(target)
            self._patch_modules()
            self.net = self.framework.net(self.observer, self.originals)
            for owner, attribute, value in self.net.patches:
                self._replace(owner, attribute, value)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._diverted.clear()

    def _patch(self, target: Target) -> None:
        current = vars(target.owner).get(target.attribute, _MISSING)
        value = getattr(target.owner, target.attribute) if current is _MISSING else current
        if isinstance(value, types.FunctionType) and not isinstance(target.owner, type):
            self._divert(value, target.api)
        elif isinstance(value, property):
            self._replace(target.owner, target.attribute, property(self._recording(target.api, value.fget), value.fset, value.fdel))
        elif isinstance(value, types.GetSetDescriptorType):
            self._replace(target.owner, target.attribute, property(self._recording(target.api, value.__get__), value.__set__))
        else:
            function = self._diverted[id(value)].original if id(value) in self._diverted else value
            wrapper = recording(target.api, function, self.observer)
            self.originals[id(wrapper)] = function
            self._replace(target.owner, target.attribute, wrapper)
        self.count += 1

    def _recording(self, api: str, function: Any) -> Callable[[Any], Any]:
        call = self.observer.call
        return lambda self_: call(api, function, (self_,), {})

    def _divert(self, function: types.FunctionType, api: str) -> None:
        if id(function) in self._diverted:
            return  # known under a preferred name already
        diversion = Diversion(function, lambda original: recording(api, original, self.observer))
        diversion.apply()
        self._diverted[id(function)] = diversion
        self.originals[id(function)] = diversion.original
        self._undo.append(diversion.undo)

    def _patch_modules(self) -> None:
        owner, attribute = self.framework.module_call()
        original = getattr(owner, attribute)
        enter = self.observer.module_call

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            return enter(module, original, args, kwargs)

        call.__name__, call.__qualname__, call.__doc__ = original.__name__, original.__qualname__, original.__doc__
        call.__wrapped__ = original  # type: ignore[attr-defined]
        self._replace(owner, attribute, call)

    def _replace(self, owner: Any, attribute: str, value: Any) -> None:
        before = vars(owner).get(attribute, _MISSING)

        def undo() -> None:
            if before is _MISSING:
                delattr(owner, attribute)  # it was inherited
            else:
                setattr(owner, attribute, before)

        setattr(owner, attribute, value)
        self._undo.append(undo)
