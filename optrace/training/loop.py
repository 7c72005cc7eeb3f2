"""The training loop that ``auto_diff`` runs on each side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from optrace import frameworks
from optrace.diagnose.run import call_arguments, mode, model_error
from optrace.errors import InputError, ModelError
from optrace.frameworks.base import Framework
from optrace.frameworks.training import training_of
from optrace.trace.model import Trace
from optrace.trace.session import trace


def run_training(
    model: Any,
    inputs: Any,
    loss_fn: Callable[[Any], Any] | None,
    optimizer: Any,
    steps: int = 1,
    train: bool | None = True,
    level: str = "full",
) -> Trace:
    """The trace of ``steps`` training steps of ``model``: forward, loss, backward, update.

    ``inputs``: one batch for every step, or an iterable of batches (a loader). ``loss_fn`` is called with
    the model's output; without one a tensor output itself is the loss. The model and its optimizer are
    left as the steps have made them; modes and the generator state are restored. Raises ``InputError``
    for inputs that do not fit and ``ModelError`` when the model, the loss or the update raises.
    """
    framework = frameworks.of_module(model)
    session = trace(level=level, frameworks=[framework.name])
    state = framework.rng_state()
    try:
        with mode(framework, model, train), framework.unfused(), session as recorded:
            session.name(model)
            for number, batch in enumerate(_batches(inputs, steps)):
                _step(session, framework, model, batch, loss_fn, optimizer, number)
    except (InputError, ModelError):
        raise
    except Exception as error:
        raise model_error(f"training {type(model).__name__}", error, recorded) from error
    finally:
        framework.set_rng_state(state)
    return recorded


def _step(
    session: Any,
    framework: Framework,
    model: Any,
    batch: Any,
    loss_fn: Callable[[Any], Any] | None,
    optimizer: Any,
    number: int,
) -> None:
    training = training_of(framework.name)
    if optimizer is not None:
        training.zero_grad(optimizer)
    args, kwargs = call_arguments(framework, batch)
    output = model(*args, **kwargs)
    loss = session.in_phase("loss", loss_fn, output) if loss_fn is not None else output
    if not framework.is_tensor(loss) or int(np.prod(tuple(loss.shape))) != 1:
        raise InputError(
            f"step {number}: the loss of {type(model).__name__} is {type(loss).__name__}, not a tensor of one element; "
            "give loss_fns=(base_loss, raw_loss), each called with the model's output"
        )
    loss.backward()
    if optimizer is not None:
        if any(True for _ in training.parameters_of(optimizer)):
            optimizer.step()
        else:
            session.step(optimizer, [p for _, p in framework.named_parameters(model) if training.can_hook(p)])


def _batches(inputs: Any, steps: int) -> Iterator[Any]:
    if isinstance(inputs, (dict, tuple, list, np.ndarray)) or frameworks.of_tensor(inputs) is not None:
        for _ in range(steps):
            yield inputs
        return
    count = 0
    for batch in inputs:
        if count == steps:
            return
        yield batch
        count += 1
    if count < steps:
        raise InputError(f"the loader gave {count} batches, {steps} steps were asked for")
