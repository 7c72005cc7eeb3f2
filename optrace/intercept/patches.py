"""Install wrappers over a framework's callables and put the very same objects back."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

from optrace.frameworks.base import Framework, Target
from optrace.frameworks.training import training_of
from optrace.intercept import references
from optrace.intercept.divert import Diversion
from optrace.intercept.wrappers import Receiver, recording, recording_property, unwrapped

_MISSING = object()


class Patch:
    """One attribute that holds ``value`` while applied."""

    def __init__(self, owner: Any, attribute: str, value: Any) -> None:
        self.owner, self.attribute, self.value = owner, attribute, value
        self._before: Any = _MISSING

    def apply(self) -> None:
        # A wrapper that the program took from here during an earlier trace and put back later is no original.
        self._before = unwrapped(vars(self.owner).get(self.attribute, _MISSING))
        setattr(self.owner, self.attribute, self.value)

    def undo(self) -> None:
        if vars(self.owner).get(self.attribute) is not self.value:
            return  # the program has put something of its own there
        if self._before is _MISSING:
            delattr(self.owner, self.attribute)  # it was inherited
        else:
            setattr(self.owner, self.attribute, self._before)


class Patches:
    """Things with ``apply`` and ``undo`` that come and go together."""

    def __init__(self) -> None:
        self._all: list[Any] = []
        self._applied: list[Any] = []
        self._on = False

    def add(self, patch: Any) -> None:
        """Take in one more; it is applied at once when the others are."""
        self._all.append(patch)
        if self._on:
            self._applied.append(patch)
            patch.apply()

    def apply(self) -> None:
        """Apply all; when one fails, all are undone before the error goes on."""
        if self._on:
            return
        self._on = True
        try:
            for patch in self._all:
                self._applied.append(patch)
                patch.apply()
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        self._on = False
        while self._applied:
            self._applied.pop().undo()


class TargetPatches(Patches):
    """All targets of one framework. ``receive`` gets every call, ``enter`` every call of a module."""

    def __init__(self, framework: Framework, receive: Receiver, enter: Callable[..., Any]) -> None:
        super().__init__()
        self._receive = receive
        self._diverted: dict[int, Diversion] = {}
        # id of a replaced or diverted callable -> the callable that behaves as before.
        self.originals: dict[int, Callable[..., Any]] = {}
        self.count = 0
        targets = list(framework.targets())
        held = [unwrapped(getattr(t.owner, t.attribute)) for t in targets if t.held]
        self._places = references.places_of(held) if held else {}
        del held
        for target in targets:
            self._target(target)
        owner, attribute = framework.module_call()
        self.add(Diversion(vars(owner)[attribute], enter))
        self.add(training_of(framework.name).patch(receive))

    def replace(self, owner: Any, attribute: str, value: Any) -> None:
        """Have ``owner.attribute`` hold ``value`` while the patches are applied."""
        self.add(Patch(owner, attribute, value))

    def _target(self, target: Target) -> None:
        own = vars(target.owner).get(target.attribute, _MISSING)
        value = unwrapped(getattr(target.owner, target.attribute) if own is _MISSING else own)
        is_method = isinstance(target.owner, type)
        if isinstance(value, types.FunctionType) and not (is_method and id(value) in self._diverted):
            self._divert(value, target.api)
        elif isinstance(value, (property, types.GetSetDescriptorType)):
            self.replace(target.owner, target.attribute, recording_property(target.api, value, self._receive))
        else:
            # A method that is a public function too goes by its own name when it is called as a method.
            function = self._diverted[id(value)].original if id(value) in self._diverted else value
            wrapper = recording(target.api, value, function, self._receive, is_method)
            self.originals[id(wrapper)] = function
            self.replace(target.owner, target.attribute, wrapper)
            if target.held:
                self.add(references.Held(value, wrapper, self._places[id(value)]))
        self.count += 1

    def _divert(self, function: types.FunctionType, api: str) -> None:
        if id(function) in self._diverted:
            return  # known under a preferred name already
        diversion = Diversion(function, partial(self._receive, api))
        self._diverted[id(function)] = diversion
        self.originals[id(function)] = diversion.original
        self.add(diversion)
