"""``replay_random``: while it is active, random calls consume the draws that another run made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from optrace import frameworks, ops
from optrace.errors import ReplayError
from optrace.frameworks.base import Framework
from optrace.intercept.hub import hub_of
from optrace.randomness.apply import CannotApply, apply
from optrace.randomness.choose import Pool
from optrace.randomness.draws import draws_of, family_of, freedom
from optrace.trace.draws import handed
from optrace.trace.effect import effect_of
from optrace.trace.model import Trace
from optrace.transparent import transparent


class replay_random:
    """Feed base's draws to the random calls made inside the ``with`` block, of whichever framework.

    ``base_trace``: a trace at level ``full``, or the folder of a saved one. ``unreplayed`` then says
    which random calls drew for themselves, and why. Raises ``ReplayError`` for a trace without values.
    """

    innermost = True

    def __init__(self, base_trace: Trace | str | Path) -> None:
        if not isinstance(base_trace, Trace):
            from optrace.trace.store import read

            base_trace = read(Path(base_trace))
        if base_trace.level != "full":
            raise ReplayError('the trace does not hold the draws; record it with optrace.trace(level="full")')
        self._pool = Pool(draws_of(base_trace))
        self.unreplayed: dict[str, str] = {}
        self._thread = threading.local()
        self._frameworks: list[Framework] = []

    def __enter__(self) -> replay_random:
        for name in frameworks.NAMES:
            framework = frameworks.loaded(name)
            if framework is not None:
                self._frameworks.append(framework)
                hub_of(framework).add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        while self._frameworks:
            hub_of(self._frameworks.pop()).remove(self)

    # -- the observer's interface ----------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return getattr(self._thread, "busy", False)

    def is_open(self, function: Any) -> bool:
        return self.busy

    @transparent
    def call(
        self,
        api: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        family = None if self.busy or handed.asking else family_of(api)
        if family is not None:
            self._thread.busy = True
            try:
                done, result = self._replayed(api, family, args, kwargs)
            finally:
                self._thread.busy = False
            if done:
                return result
        return (run or function)(*args, **kwargs)

    def _replayed(self, api: str, family: str, args: Any, kwargs: Any) -> tuple[bool, Any]:
        framework = frameworks.get(api.partition(".")[0])
        given = ops.bind(api, args, kwargs)
        if not effect_of(api, given).effective or given.get("generator") is not None:
            return False, None
        read = next((v for v in given.values() if framework.is_tensor(v)), None)
        array = None if read is None else framework.to_numpy(read)
        shape = _shape(framework, api, given, array)
        numbers = None if shape is None else freedom(api, given, shape)
        draw = self._pool.take(family, array, shape, numbers)
        if draw is None:
            self.unreplayed[api] = "base has no draw left that would fit"
            return False, None
        try:
            result = apply(framework, api, args, kwargs, draw)
        except CannotApply as error:
            self.unreplayed[api] = str(error)
            return False, None
        handed.draw = draw.values
        return True, result

    @transparent
    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(module, *args, **kwargs)

    @transparent
    def dispatched(self, function: Callable[..., Any], run: Callable[..., Any], args: Any) -> Any:
        return run(*args)

    @transparent
    def quietly(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @transparent
    def in_phase(self, phase: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def opaque(self, name: str) -> None:
        """Nothing to do: what can't be seen draws for itself."""


def _shape(
    framework: Framework, api: str, given: dict[str, Any], read: np.ndarray | None
) -> tuple[int, ...] | None:
    """The shape of the draw that the call needs, ``None`` where it does not show before the call."""
    if api.endswith("scaled_dot_product_attention"):
        query, key = given["query"], given["key"]
        return (*query.shape[:-1], key.shape[-2])
    for name in ("size", "shape"):
        size = given.get(name)
        if isinstance(size, int):
            return (size,)
        if isinstance(size, (list, tuple)):
            flat = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
            return tuple(int(n) for n in flat)
    if isinstance(given.get("n"), int):
        return (given["n"],)
    if api.endswith("multinomial"):
        return None
    return None if read is None else read.shape
