"""Run recorded calls again, on other inputs or in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.align.graph import Key
from optrace.ops import arrange
from optrace.trace.model import Trace
from optrace.trace.records import Call, DtypeRef, Opaque, TensorRef

_WIDER = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}


# How random calls are made with a known draw, and whether that is another than the recorded one: set by
# ``optrace.randomness``, which stands above this package.
replay_draw: Callable[..., Any] | None = None
redrawn: Callable[[Call], bool] | None = None


class Unreplayable(Exception):
    """A call can't be run again; the text says why."""


class Replayer:
    """Runs calls of one trace. ``lift`` computes in float64 whatever was recorded."""

    def __init__(self, trace: Trace, lift: bool = False) -> None:
        self.trace = trace
        self.lift = lift

    def run(
        self,
        call: Call,
        values: Mapping[Key, np.ndarray],
        override: Mapping[str, Any] | None = None,
    ) -> dict[Key, np.ndarray]:
        """The call's outputs on ``values`` (recorded values where a key is missing), by value key.

        ``override`` replaces arguments by canonical name. Raises ``Unreplayable``.
        """
        framework = frameworks.get(call.framework)
        function = self._function(call)
        live: dict[Key, Any] = {}

        def tensor(ref: TensorRef) -> Any:
            if ref.key not in live:
                array = values.get(ref.key)
                if array is None:
                    array = self.trace.value(ref)
                if array is None:
                    raise Unreplayable(f"no values of {call.api}'s argument")
                array = self._lifted(array)
                live[ref.key] = array if ref.device == "numpy" else framework.from_numpy(array)
            return live[ref.key]

        try:
            if override:
                positional, keyword = _with(call, override)
            else:
                positional, keyword = call.positional, call.keyword
            args = [self._argument(framework, a, tensor) for a in positional]
            kwargs = {k: self._argument(framework, v, tensor) for k, v in keyword.items()}
        except TypeError as error:
            raise Unreplayable(str(error)) from error
        state = framework.rng_state()
        try:
            with framework.no_grad():
                result = self._make(framework, call, function, args, kwargs)
            outputs: dict[Key, np.ndarray] = {}
            self._collect(framework, call.outputs, result, outputs)
            changed = {r.uid: r for r in call.mutated}
            for key, tensor_ in live.items():
                if key[0] in changed and changed[key[0]].key not in outputs:
                    outputs[changed[key[0]].key] = framework.to_numpy(tensor_)
            return outputs
        except Unreplayable:
            raise
        except Exception as error:
            raise Unreplayable(f"{call.api} raised {type(error).__name__} when run again: {error}") from error
        finally:
            framework.set_rng_state(state)

    def _make(
        self, framework: Any, call: Call, function: Callable[..., Any], args: list[Any], kwargs: Any
    ) -> Any:
        """The call itself; a random one with a known draw."""
        if call.random and replay_draw is not None:
            return replay_draw(self.trace, framework, call, args, kwargs)
        return function(*args, **kwargs)

    def _function(self, call: Call) -> Callable[..., Any]:
        name = call.via or call.api
        found = self.trace.functions.get(name)
        if found is not None:
            return found
        try:
            return frameworks.get(call.framework).resolve(name)
        except AttributeError as error:
            raise Unreplayable(f"{name} can't be found") from error

    def _lifted(self, array: np.ndarray) -> np.ndarray:
        wider = _WIDER.get(str(array.dtype)) if self.lift else None
        return array.astype(wider) if wider else array

    def _argument(self, framework: Any, arg: Any, tensor: Callable[[TensorRef], Any]) -> Any:
        if isinstance(arg, TensorRef):
            return tensor(arg)
        if isinstance(arg, (list, tuple)):
            items = [self._argument(framework, a, tensor) for a in arg]
            return items if isinstance(arg, list) else tuple(items)
        if isinstance(arg, dict):
            return {k: self._argument(framework, v, tensor) for k, v in arg.items()}
        if isinstance(arg, slice):
            return slice(*(self._argument(framework, a, tensor) for a in (arg.start, arg.stop, arg.step)))
        if isinstance(arg, DtypeRef):
            return framework.dtype(_WIDER.get(arg.name, arg.name) if self.lift else arg.name)
        if isinstance(arg, Opaque):
            if arg.obj is None:
                raise Unreplayable(f"argument of type {arg.type_name} was not kept")
            return arg.obj
        if self.lift and isinstance(arg, str) and arg in _WIDER:
            return _WIDER[arg]
        return arg

    def _collect(self, framework: Any, recorded: Any, result: Any, into: dict[Key, np.ndarray]) -> None:
        if isinstance(recorded, TensorRef):
            if framework.is_tensor(result):
                into[recorded.key] = framework.to_numpy(result)
        elif isinstance(recorded, (list, tuple)) and isinstance(result, (list, tuple)):
            for r, x in zip(recorded, result):
                self._collect(framework, r, x, into)
        elif isinstance(recorded, dict) and isinstance(result, dict):
            for k, r in recorded.items():
                self._collect(framework, r, result.get(k), into)


def _with(call: Call, override: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The call's arguments as they were written, those named in ``override`` replaced."""
    bound = call.args
    positional, keyword = list(call.positional), dict(call.keyword)
    places = {name: i for i, name in enumerate(bound) if i < len(positional) and bound[name] is positional[i]}
    for name, value in override.items():
        if name in places:
            positional[places[name]] = value
        elif name in keyword:
            keyword[name] = value
        else:
            break
    else:
        return positional, keyword
    # Not written there: let the table say where it goes, without what it does not know.
    known = {k: v for k, v in bound.items() if not (k.startswith("arg") and k[3:].isdigit()) and k != "name"}
    return arrange(call.via or call.api, {**known, **override})
