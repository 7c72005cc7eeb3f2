"""What a trace keeps of training: gradients, optimizer steps, buffers. Filled by ``TrainingRecorder``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from optrace.frameworks.base import Framework
from optrace.frameworks.training import Training, training_of
from optrace.trace import sites
from optrace.trace.records import Call, TensorRef

if TYPE_CHECKING:
    from optrace.trace.recorder import Recorder

Key = tuple[int, int]

# Buffers up to this many bytes are held until the trace ends, so that they can be read even if the module is gone.
_SMALL = 1 << 20


class Gradient(msgspec.Struct, frozen=True):
    """One gradient that reached the value ``key`` in a backward pass.

    ``leaving``: as it went on from there, after the program's own hooks on the tensor.
    """

    key: Key
    ref: TensorRef
    step: int
    leaving: bool = False


class Update(msgspec.Struct):
    """One parameter in one optimizer step; ``gradient`` is what the optimizer found, ``None`` without one."""

    uid: int
    path: str | None
    before: TensorRef
    gradient: TensorRef | None
    settings: dict[str, Any]
    names: dict[str, str]
    state: dict[str, TensorRef] = msgspec.field(default_factory=dict)
    after: TensorRef | None = None
    state_after: dict[str, TensorRef] = msgspec.field(default_factory=dict)


class OptimizerStep(msgspec.Struct):
    """One ``optimizer.step()``; ``call`` is its record among the trace's calls."""

    call: int
    step: int
    updates: list[Update]


class BufferState(msgspec.Struct, frozen=True):
    """A buffer's values at the end of ``step`` (``-1``: before the first)."""

    uid: int
    path: str
    step: int
    ref: TensorRef


class TrainingRecord(msgspec.Struct):
    """All of it, for one trace."""

    gradients: list[Gradient] = msgspec.field(default_factory=list)
    steps: list[OptimizerStep] = msgspec.field(default_factory=list)
    buffers: list[BufferState] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.gradients or self.steps)

    def changed_buffers(self) -> bool:
        """Whether any buffer has other values than at the start."""
        return any(b.step >= 0 for b in self.buffers)

    def plain(self) -> dict[str, Any]:
        """As numbers, texts, lists and dictionaries, to be stored."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_plain(cls, stored: Any) -> TrainingRecord:
        """What ``plain`` gave. Raises ``msgspec.ValidationError`` for anything else."""
        return msgspec.convert(stored, cls)


class TrainingRecorder:
    """Sees gradients through hooks that change nothing, and optimizers before and after their steps."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = weakref.proxy(recorder)
        self.record: TrainingRecord = recorder.trace.training
        self._hooked: set[Key] = set()
        self._current: dict[int, Key] = {}  # the latest version of each hooked leaf
        self._undo: list[tuple[weakref.ref[Any], Callable[[], None]]] = []
        self._leaving: dict[Key, Callable[[], None]] = {}
        self._stepping: dict[int, tuple[OptimizerStep, list[Any]]] = {}
        self._buffers: dict[int, tuple[weakref.ref[Any], str, Framework, np.ndarray]] = {}
        self._small: list[Any] = []
        self.on = recorder.trace.level == "full"

    # -- gradients -------------------------------------------------------------------------------

    def made(self, framework: Framework, tensor: Any, ref: TensorRef) -> None:
        """A tensor that may get a gradient was met."""
        training = training_of(framework.name)
        if not training.can_hook(tensor):
            return
        if tensor.is_leaf:
            known = ref.uid in self._current
            self._current[ref.uid] = ref.key
            if not known:
                self._hook(training, framework, tensor, ref, False)
        elif ref.key not in self._hooked:
            self._hooked.add(ref.key)
            self._hook(training, framework, tensor, ref, False)

    def hooked(self, framework: Framework, tensor: Any, ref: TensorRef) -> None:
        """The program has registered a hook of its own: look behind it, too."""
        undo = self._leaving.pop(ref.key, None)
        if undo is not None:
            undo()
        self._leaving[ref.key] = self._hook(training_of(framework.name), framework, tensor, ref, True)

    def _hook(
        self, training: Training, framework: Framework, tensor: Any, ref: TensorRef, leaving: bool
    ) -> Callable[[], None]:
        mine, key, leaf = weakref.ref(self), ref.key, bool(tensor.is_leaf)

        def told(gradient: Any) -> None:
            recorder = mine()
            if recorder is not None:
                recorder._note(
                    framework, recorder._current.get(key[0], key) if leaf else key, gradient, leaving
                )

        undo = training.hook(tensor, told)
        self._undo.append((weakref.ref(tensor), undo))
        return undo

    def _note(self, framework: Framework, key: Key, gradient: Any, leaving: bool) -> None:
        recorder = self._recorder
        if not self.on or gradient is None or recorder.resting:
            return
        thread = recorder.thread
        before, thread.busy = thread.busy, True
        try:
            ref = recorder.trace.array(framework.to_numpy(gradient))
            self.record.gradients.append(Gradient(key, ref, recorder.step, leaving))
        except Exception as error:
            recorder.trace.count_error("gradient", error)
        finally:
            thread.busy = before

    def close(self) -> None:
        """Take every hook away and note the buffers as they ended."""
        self._note_buffers()
        self.on = False
        self._small.clear()
        for tensor, undo in self._undo:
            if tensor() is not None:
                undo()
        self._undo.clear()

    # -- optimizers ------------------------------------------------------------------------------

    def before_step(self, optimizer: Any, parameters: Iterable[Any] | None, phase: str) -> None:
        """Note parameters, gradients and settings; ``parameters``: those of an optimizer of the program's own."""
        recorder = self._recorder
        framework = _framework_of(recorder.frameworks, optimizer, parameters)
        if framework is None:
            return
        training = training_of(framework.name)
        own = [(p, None) for p in parameters] if parameters is not None else []
        updates, live = [], []
        for parameter, setting in own or training.parameters_of(optimizer):
            gradient = training.gradient(parameter)
            state = training.state_of(optimizer, parameter) if setting is not None else {}
            updates.append(
                Update(
                    recorder.identities.uid(parameter),
                    recorder.identities.path(parameter),
                    self._array(framework, parameter),
                    None if gradient is None else self._array(framework, gradient),
                    dict(setting.values) if setting is not None else {},
                    dict(setting.names) if setting is not None else {},
                    {k: self._array(framework, v) for k, v in state.items()},
                )
            )
            live.append(parameter)
        call = Call(
            id=len(recorder.trace.calls),
            api=f"{_name(framework, optimizer)}.step",
            framework=framework.name,
            positional=[],
            keyword=_shown(updates),
            site=sites.find(3),
            phase=phase,
            step=recorder.step,
        )
        recorder.trace.append(call)
        self._stepping[id(optimizer)] = (OptimizerStep(call.id, recorder.step, updates), live)
        self._note_buffers()

    def after_step(self, optimizer: Any) -> None:
        """Note the parameters again; those changed behind their version counter get a new version."""
        step, live = self._stepping.pop(id(optimizer), (None, []))
        if step is None:
            return
        recorder = self._recorder
        self.record.steps.append(step)
        for update, parameter in zip(step.updates, live):
            framework = next(f for f in recorder.frameworks if f.is_tensor(parameter))
            update.after = self._array(framework, parameter)
            if update.settings:
                state = training_of(framework.name).state_of(optimizer, parameter)
                update.state_after = {k: self._array(framework, v) for k, v in state.items()}
            recorder.identities.refresh(update.uid)
        self._undo = [(tensor, undo) for tensor, undo in self._undo if tensor() is not None]

    def _array(self, framework: Framework, tensor: Any) -> TensorRef:
        return self._recorder.trace.array(framework.to_numpy(tensor))

    # -- buffers ---------------------------------------------------------------------------------

    def buffer(self, framework: Framework, path: str, tensor: Any) -> None:
        """A module's buffer has been named."""
        if not self.on:
            return
        uid = self._recorder.identities.uid(tensor)
        if uid not in self._buffers:
            array = framework.to_numpy(tensor)
            self._buffers[uid] = (weakref.ref(tensor), path, framework, array)
            if array.nbytes <= _SMALL:
                self._small.append(tensor)
            self.record.buffers.append(BufferState(uid, path, -1, self._recorder.trace.array(array)))

    def _note_buffers(self) -> None:
        for uid, (tensor, path, framework, before) in list(self._buffers.items()):
            live = tensor()
            if live is None:
                continue
            now = framework.to_numpy(live)
            if not np.array_equal(now, before):
                self._buffers[uid] = (tensor, path, framework, now)
                self.record.buffers.append(
                    BufferState(uid, path, self._recorder.step, self._recorder.trace.array(now))
                )


def _framework_of(
    frameworks: list[Framework], optimizer: Any, parameters: Iterable[Any] | None
) -> Framework | None:
    for framework in frameworks:
        own = (
            list(parameters)
            if parameters is not None
            else [p for p, _ in training_of(framework.name).parameters_of(optimizer)]
        )
        if own and framework.is_tensor(own[0]):
            return framework
    return None


def _name(framework: Framework, optimizer: Any) -> str:
    cls = type(optimizer)
    inside = cls.__module__.startswith(("torch.", "paddle."))
    home = "torch.optim." if framework.name == "torch" else "paddle.optimizer."
    return f"{home if inside else ''}{cls.__name__}"


def _shown(updates: list[Update]) -> dict[str, Any]:
    """The settings of the first parameter, by the names a user knows."""
    if not updates:
        return {}
    first = updates[0]
    return {
        first.names[k]: v
        for k, v in first.settings.items()
        if k in first.names and isinstance(v, (int, float, str))
    }
