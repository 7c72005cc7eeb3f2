"""Run one model under a trace, leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from optrace import frameworks
from optrace.errors import InputError, ModelError
from optrace.frameworks.base import Framework
from optrace.trace.model import Trace
from optrace.trace.session import trace


def sides(base_model: Any, raw_model: Any, inputs: Any) -> tuple[Any, Any]:
    """Inputs of each side from one of the forms that ``auto_diff`` takes."""
    if isinstance(inputs, (tuple, list)) and len(inputs) == 2 and any(_is_set(i) for i in inputs):
        return inputs[0], inputs[1]
    return inputs, inputs


class Arguments(NamedTuple):
    """Positional and keyword arguments of one call: the form of ``inputs`` that needs no guess."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call_arguments(framework: Framework, inputs: Any) -> Arguments:
    """Inputs of one side as arguments, with numpy arrays as fresh tensors of its framework."""
    if isinstance(inputs, Arguments):
        return Arguments(to_framework(framework, tuple(inputs.args)), to_framework(framework, inputs.kwargs))
    fed = to_framework(framework, inputs)
    if isinstance(fed, dict):
        return Arguments((), fed)
    return Arguments(tuple(fed) if isinstance(fed, (tuple, list)) else (fed,), {})


def _is_set(side: Any) -> bool:
    if isinstance(side, (dict, tuple, list, Iterator)) or (
        hasattr(side, "__iter__") and hasattr(side, "__len__") and hasattr(side, "dataset")
    ):
        return True
    return frameworks.of_tensor(side) is not None


def to_framework(framework: Framework, tree: Any) -> Any:
    """``tree`` with numpy arrays as fresh tensors; tensors of the framework stay."""
    if isinstance(tree, np.ndarray):
        return framework.from_numpy(tree)
    if isinstance(tree, Mapping):
        return {k: to_framework(framework, v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(to_framework(framework, v) for v in tree)
    other = frameworks.of_tensor(tree)
    if other is not None and other is not framework:
        raise InputError(
            f"a {other.name} tensor was given as input to a {framework.name} model; give numpy arrays"
        )
    return tree


def model_error(what: str, error: Exception, recorded: Trace) -> ModelError:
    """That ``what`` raised ``error``, with the user's line and, if one failed, the recorded call."""
    ended, place = recorded.meta.get("ended"), recorded.meta.get("ended_at")
    failed = recorded.calls[-1] if recorded.calls and recorded.calls[-1].error == ended else None
    while failed is not None and failed.parent >= 0 and recorded.calls[failed.parent].error == ended:
        failed = recorded.calls[failed.parent]
    where = (f" in {failed.api}" if failed is not None else "") + (f" at {place}" if place else "")
    wrapped = ModelError(f"{what} raised {type(error).__name__}{where}: {error}")
    wrapped.trace = recorded  # type: ignore[assignment]
    return wrapped


@contextmanager
def mode(framework: Framework, model: Any, train: bool | None) -> Iterator[None]:
    """The model in train or eval mode, every submodule's own mode restored afterwards."""
    before = [(m, m.training) for _, m in framework.named_modules(model)]
    try:
        if train is not None:
            model.train() if train else model.eval()
        yield
    finally:
        for module, training in before:
            module.training = training


def run_model(model: Any, inputs: Any, train: bool | None = False, level: str = "full") -> Trace:
    """The trace of one forward call of ``model``; its generator state and modes are restored."""
    framework = frameworks.of_module(model)
    args, kwargs = call_arguments(framework, inputs)
    session = trace(level=level, frameworks=[framework.name])
    state = framework.rng_state()
    try:
        with mode(framework, model, train), framework.unfused(), session as recorded:
            session.name(model)
            try:
                result = model(*args, **kwargs)
            except TypeError as error:
                if not recorded.calls:
                    names = ", ".join(kwargs) or f"{len(args)} positional"
                    raise InputError(
                        f"{type(model).__name__} can't be called with these inputs ({names}): {error}"
                    ) from error
                raise
    except InputError:
        raise
    except Exception as error:
        raise model_error(type(model).__name__, error, recorded) from error
    finally:
        framework.set_rng_state(state)
    recorded.outputs = session.record(result)
    return recorded
