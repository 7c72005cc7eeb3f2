"""The gradient of one recorded call, by running it again under the framework's own autograd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.align.graph import Key, made_by
from optrace.diagnose.replay import Replayer, Unreplayable
from optrace.frameworks.training import training_of
from optrace.trace.records import Call, TensorRef, tensors_in

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128"})


def differentiable(call: Call) -> list[TensorRef]:
    """The tensors that the call reads and that a gradient may reach, each once."""
    refs = tensors_in(call.positional) + tensors_in(call.keyword)
    return list({r.key: r for r in refs if r.requires_grad and r.dtype in FLOATS}.values())


def results(call: Call) -> list[TensorRef]:
    """What the call made that may pass a gradient on."""
    return list({r.key: r for r in made_by(call) if r.requires_grad and r.dtype in FLOATS}.values())


class Differentiator(Replayer):
    """Gradients of calls of one trace."""

    def gradients(
        self, call: Call, values: Mapping[Key, np.ndarray], cotangents: Mapping[Key, np.ndarray]
    ) -> dict[Key, np.ndarray]:
        """What leaves the call through its inputs when ``cotangents`` reach its results. Raises ``Unreplayable``."""
        inputs, outputs = differentiable(call), results(call)
        given = [cotangents.get(r.key) for r in outputs]
        if not inputs or all(g is None for g in given):
            return {}
        if "dropout" in call.api and call.random:
            return self._dropout(call, values, inputs, outputs, given)
        if call.random:
            raise Unreplayable(f"{call.api} draws random numbers")
        arrays = []
        for ref in inputs:
            array = values.get(ref.key)
            array = self.trace.value(ref) if array is None else array
            if array is None:
                raise Unreplayable(f"no values of {call.api}'s argument")
            arrays.append(array)
        framework, function = frameworks.get(call.framework), self._function(call)

        def run(live: list[Any]) -> list[Any]:
            table = {r.key: t for r, t in zip(inputs, live)}

            def tensor(ref: TensorRef) -> Any:
                if ref.key not in table:
                    array = values.get(ref.key)
                    array = self.trace.value(ref) if array is None else array
                    if array is None:
                        raise Unreplayable(f"no values of {call.api}'s argument")
                    table[ref.key] = array if ref.device == "numpy" else framework.from_numpy(array)
                return table[ref.key]

            args = [self._argument(framework, a, tensor) for a in call.positional]
            kwargs = {k: self._argument(framework, v, tensor) for k, v in call.keyword.items()}
            made: dict[Key, Any] = {}
            _pair(call.outputs, function(*args, **kwargs), made)
            changed = {r.uid: r.key for r in call.mutated}
            made.update({changed[k[0]]: t for k, t in table.items() if k[0] in changed})
            return [made.get(r.key) for r in outputs]

        state = framework.rng_state()
        try:
            found = training_of(call.framework).vjp(run, arrays, given)
        except Unreplayable:
            raise
        except Exception as error:
            raise Unreplayable(
                f"{call.api} can't be differentiated again: {type(error).__name__}: {error}"
            ) from error
        finally:
            framework.set_rng_state(state)
        return {r.key: g for r, g in zip(inputs, found) if g is not None}

    def _dropout(
        self,
        call: Call,
        values: Mapping[Key, np.ndarray],
        inputs: list[TensorRef],
        outputs: list[TensorRef],
        given: list[np.ndarray | None],
    ) -> dict[Key, np.ndarray]:
        """By the mask that shows in what came out."""
        before = values.get(inputs[0].key, self.trace.value(inputs[0]))
        after = values.get(outputs[0].key, self.trace.value(outputs[0]))
        if (
            len(inputs) != 1
            or given[0] is None
            or before is None
            or after is None
            or before.shape != after.shape
        ):
            raise Unreplayable(f"{call.api} draws random numbers")
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(before != 0, after / before, 0)
        return {inputs[0].key: given[0] * scale.astype(given[0].dtype)}


def _pair(recorded: Any, result: Any, into: dict[Key, Any]) -> None:
    if isinstance(recorded, TensorRef):
        into[recorded.key] = result
    elif isinstance(recorded, (list, tuple)) and isinstance(result, (list, tuple)):
        for r, x in zip(recorded, result):
            _pair(r, x, into)
    elif isinstance(recorded, dict) and isinstance(result, dict):
        for k, r in recorded.items():
            _pair(r, result.get(k), into)
