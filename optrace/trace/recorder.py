"""The hot path: turns observed calls into records. One recorder serves one trace, all threads."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from optrace.frameworks.base import Framework
from optrace.frameworks.generators import seeded
from optrace.trace import sites
from optrace.trace.arguments import MAX_TOTAL, text_of
from optrace.trace.draws import DrawWatch
from optrace.trace.model import Trace
from optrace.trace.modules import ModulePaths
from optrace.trace.records import Call, TensorRef
from optrace.trace.selection import EVERYTHING, Selection
from optrace.trace.training import TrainingRecorder
from optrace.trace.trees import SIMPLE, Trees
from optrace.transparent import transparent

BACKWARD = frozenset(
    f"{name}.backward" for name in ("torch.Tensor", "torch.autograd", "paddle.Tensor", "paddle.autograd")
) | {"torch.autograd.grad", "paddle.grad"}
HOOKS = frozenset({"torch.Tensor.register_hook", "paddle.Tensor.register_hook"})
# They change a tensor without counting a version.
SETTERS = frozenset({"paddle.Tensor.set_value", "paddle.Tensor.copy_"})


class ThreadState(threading.local):
    """What one thread is in the middle of."""

    def __init__(self) -> None:
        self.busy = False  # the recorder's own tensor work, never recorded
        self.open: list[Call] = []
        self.functions: list[Any] = []  # the callables behind ``open``
        self.modules: list[OpenModule] = []
        self.phase = "forward"
        self.stepping: FrameType | None = None  # the frame of the optimizer's step under way
        self.left = 0  # how many more items of containers the call under way may list
        self.first_order = True  # the backward pass under way makes no graph of its own


class OpenModule:
    """A module whose call is under way."""

    __slots__ = ("evaluating", "frame", "path", "site", "type_name")

    def __init__(self, path: str, type_name: str, evaluating: bool, frame: FrameType) -> None:
        self.path, self.type_name, self.evaluating = path, type_name, evaluating
        self.frame = frame  # of ours, between the module's code and its caller's
        self.site: Any = sites.UNKNOWN  # the user's line from which it was called


class _Api(NamedTuple):
    """What is to be known about an API whenever it is called."""

    framework: Framework
    aside: Callable[[], Any]
    watched: bool  # it may draw
    backward: bool
    setter: bool
    hook: bool


class _Dispatched:
    """A call that a tensor subclass is asked to make: what it calls is no longer the call itself."""

    def __init__(self, function: Any) -> None:
        self.function = function


def _same(innermost: Any, function: Any) -> bool:
    return innermost is function or (type(innermost) is _Dispatched and innermost.function is function)


class Recorder:
    """Observer of all frameworks' calls; appends to ``trace``.

    Errors in here never reach the program: they are counted in ``trace.meta["errors"]``.
    """

    def __init__(self, trace: Trace, frameworks: list[Framework], selection: Selection = EVERYTHING) -> None:
        self.trace = trace
        self.selection = selection
        self.resting = not selection.wants_step(0)  # in a step that is not to be recorded
        self.frameworks = frameworks
        self.thread = ThreadState()
        self.step = 0
        self.training = TrainingRecorder(self)
        self.draws = DrawWatch(trace)
        self.trees = Trees(trace, frameworks, self.thread, self._made)
        self.identities = self.trees.identities
        self.modules = ModulePaths(self.identities, self.training.buffer)
        self._apis: dict[str, _Api] = {}
        self._lock = threading.Lock()

    # -- the observer's interface ----------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self.thread.busy

    def is_open(self, function: Any) -> bool:
        """Whether a call that comes from below is the innermost recorded one on its way down.

        What a builtin passes on can only be itself; a Python function may also make other calls.
        """
        thread = self.thread
        if thread.busy or not thread.functions:
            return thread.busy
        innermost = thread.functions[-1]
        if type(innermost) is _Dispatched:
            return innermost.function is function
        return innermost is function or not isinstance(innermost, FunctionType)

    @transparent
    def call(
        self,
        api: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:
        thread = self.thread
        run = run or function
        if thread.busy or self.resting or (thread.functions and _same(thread.functions[-1], function)):
            return run(*args, **kwargs)
        about = self._apis.get(api) or self._about(api)
        call = None if about is None else self._begin(thread, about, api, args, kwargs)
        if about is None or call is None:
            return run(*args, **kwargs)
        depth, before = len(thread.open), thread.phase
        state = self._state(thread, about, api) if about.watched else None
        try:
            thread.open.append(call)
            thread.functions.append(function)
            if about.backward:
                self._enter_backward(thread, call)
                before = "optimizer" if thread.stepping is not None else before
            result = run(*args, **kwargs)
        except BaseException as error:
            call.error = f"{type(error).__name__}: {text_of(error)}"
            self._fail(thread, call)
            raise
        finally:
            # To where they were, also when an interrupt came between two of the lines above.
            del thread.open[depth:], thread.functions[depth:]
            thread.phase = before
        if state is not None:
            self._noting(api, self._drawn, call, state, run, args, kwargs)
        self._end(thread, about, call, function, result, args, kwargs)
        return result

    @transparent
    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = self.thread
        if thread.busy:
            return function(module, *args, **kwargs)
        depth, before = len(thread.modules), thread.phase
        try:
            thread.modules.append(self._module(thread, module, sys._getframe()))
            if before == "optimizer":
                # A closure, run again by the optimizer; ends with its backward pass.
                before = thread.phase = "forward"
            return function(module, *args, **kwargs)
        finally:
            del thread.modules[depth:]
            thread.phase = before

    @transparent
    def dispatched(self, function: Callable[..., Any], run: Callable[..., Any], args: Any) -> Any:
        functions = self.thread.functions
        depth = len(functions)
        try:
            functions.append(_Dispatched(function))
            return run(*args)
        finally:
            del functions[depth:]

    @transparent
    def quietly(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = self.thread
        before = thread.busy
        try:
            thread.busy = True
            return function(*args, **kwargs)
        finally:
            thread.busy = before

    @transparent
    def in_phase(self, phase: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = self.thread
        before = thread.phase
        try:
            thread.phase = phase
            return function(*args, **kwargs)
        finally:
            thread.phase = before

    def opaque(self, name: str) -> None:
        """Count a region that ran unseen, under its name, in ``trace.meta["opaque"]``."""
        with self._lock:
            seen = self.trace.meta.setdefault("opaque", {})
            seen[name] = seen.get(name, 0) + 1

    # -- phases ----------------------------------------------------------------------------------

    def _enter_backward(self, thread: ThreadState, call: Call) -> None:
        given = call.keyword.get("create_graph", False)
        place = 4 if call.api.endswith("grad") else 3
        if len(call.positional) > place:
            given = call.positional[place]
        thread.phase, thread.first_order = "backward", not given

    def _phase(self, thread: ThreadState, framework: Framework, api: str) -> str:
        """The phase of a call made now."""
        if (
            thread.phase == "backward"
            and thread.first_order
            and api not in BACKWARD
            and framework.recomputing()
        ):
            return "recompute"  # only forward code that runs again has gradients on in there
        if thread.phase == "optimizer":
            self._check_stepping(thread)
        return thread.phase

    def before_step(self, optimizer: Any, parameters: Any = None) -> None:
        """An optimizer is about to step; ``parameters`` are those of one that the framework does not know."""
        if self.resting:
            return
        thread = self.thread
        self._noting("optimizer", self.training.before_step, optimizer, parameters, "optimizer")
        # The frame that makes the step; an exception in it leaves no other sign that the step is over.
        thread.stepping = sys._getframe(2)
        thread.phase = "optimizer"

    def after_step(self, optimizer: Any) -> None:
        thread = self.thread
        thread.stepping, thread.phase = None, "forward"
        self._noting("optimizer", self.training.after_step, optimizer)
        self.step += 1
        self.resting = not self.selection.wants_step(self.step)
        self.trees.epoch += 1

    def finish(self) -> None:
        """The trace ends: no hook of ours stays behind."""
        self._noting("hooks", self.training.close)

    def _noting(self, what: str, function: Callable[..., None], *args: Any) -> None:
        """Our own tensor work, whose errors are counted."""
        thread = self.thread
        before, thread.busy = thread.busy, True
        try:
            function(*args)
        except Exception as error:
            self.trace.count_error(what, error)
        finally:
            thread.busy = before

    def _check_stepping(self, thread: ThreadState) -> None:
        """Leave the phase when the step has been left by an exception."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not thread.stepping:
            frame = frame.f_back
        if frame is None:
            thread.stepping, thread.phase = None, "forward"

    # -- records ---------------------------------------------------------------------------------

    def _module(self, thread: ThreadState, module: Any, frame: FrameType) -> OpenModule:
        thread.busy = True
        kind = type(module).__name__
        evaluating = getattr(module, "training", True) is False
        try:
            framework = next(f for f in self.frameworks if f.is_module(module))
            if not thread.modules:
                self.trees.epoch += 1
            path = self.modules.enter(framework, module, not thread.modules)
            return OpenModule(path, kind, evaluating, frame)
        except Exception as error:
            self.trace.count_error("module", error)
            return OpenModule("?", kind, evaluating, frame)
        finally:
            thread.busy = False

    def _about(self, api: str) -> _Api | None:
        name = api[: api.index(".")]
        framework = next((f for f in self.frameworks if f.name == name), None)
        if framework is None:
            self.trace.count_error(api, LookupError(name))
            return None
        if api not in BACKWARD and not self.selection.wants_op(api):
            return None
        self._apis[api] = about = _Api(
            framework,
            framework.aside,
            self.draws.watches(framework.name, api),
            api in BACKWARD,
            api in SETTERS,
            api in HOOKS,
        )
        return about

    def _begin(
        self, thread: ThreadState, about: _Api, api: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        thread.busy = True
        try:
            module = thread.modules[-1] if thread.modules else None
            outside = module is None or not self.selection.wants_module(module.path)
            if self.selection.scope and outside and not about.backward:
                return None
            framework, record = about.framework, self.trees.record
            thread.left = MAX_TOTAL
            with about.aside():
                positional = [a if type(a) in SIMPLE else record(framework, a) for a in args]
                keyword = {k: record(framework, v) for k, v in kwargs.items()} if kwargs else {}
            site = sites.find(3, thread.modules)
            phase = thread.phase
            if phase != "forward":
                phase = self._phase(thread, framework, api)
            with self._lock:
                call = Call(
                    len(self.trace.calls),
                    api,
                    framework.name,
                    positional,
                    keyword,
                    None,
                    site,
                    None if module is None else module.path,
                    None if module is None else module.type_name,
                    thread.open[-1].id if thread.open else -1,
                    phase,
                    self.step,
                    threading.get_ident(),
                )
                self.trace.append(call)
            return call
        except Exception as error:
            self.trace.count_error(api, error)
            return None
        finally:
            thread.busy = False

    def _end(
        self, thread: ThreadState, about: _Api, call: Call, function: Any, result: Any, args: Any, kwargs: Any
    ) -> None:
        thread.busy = True
        try:
            framework, trees = about.framework, self.trees
            thread.left = MAX_TOTAL
            with about.aside():
                call.outputs = trees.record(framework, result)
                if about.setter and isinstance(call.positional[0], TensorRef):
                    self.identities.refresh(call.positional[0].uid)
                # A call whose tensor argument has a new version afterwards changed it in place.
                mutated = trees.changed(framework, call.positional, args)
                if kwargs:
                    mutated += trees.changed(framework, call.keyword.values(), kwargs.values())
            if mutated:
                call.inplace, call.mutated = True, mutated
            if about.hook and isinstance(call.positional[0], TensorRef):
                self.training.hooked(framework, args[0], call.positional[0])
            self.trace.finish(call, function)
        except Exception as error:
            self.trace.count_error(call.api, error)
        finally:
            thread.busy = False

    def _state(self, thread: ThreadState, about: _Api, api: str) -> Any:
        """The generator's state where it is to be watched."""
        thread.busy = True
        try:
            return about.framework.rng_state()
        except Exception as error:
            self.trace.count_error(api, error)
            return None
        finally:
            thread.busy = False

    def _drawn(self, call: Call, state: Any, function: Any, args: Any, kwargs: Any) -> None:
        self.draws.after(self._apis[call.api].framework, call, state, function, args, kwargs)
        if call.random:
            call.seeded = seeded(call.framework)
            if self.thread.modules and self.thread.modules[-1].evaluating:
                call.context = (*call.context, "eval mode")

    def _fail(self, thread: ThreadState, call: Call) -> None:
        thread.busy = True
        try:
            self.trace.fail(call)
        except Exception as error:
            self.trace.count_error(call.api, error)
        finally:
            thread.busy = False

    def _made(self, framework: Framework, tensor: Any, ref: TensorRef) -> None:
        """A tensor that a gradient may reach was recorded."""
        if self.training.on and self.thread.phase not in ("backward", "optimizer"):
            self.training.made(framework, tensor, ref)

    def refer(self, tree: Any) -> list[TensorRef]:
        """References to every tensor in a model's result, whatever it is wrapped in."""
        thread = self.thread
        thread.busy = True
        try:
            found: list[TensorRef] = []
            stack, seen = [tree], set()
            while stack:
                item = stack.pop()
                framework = next((f for f in self.frameworks if f.is_tensor(item)), None)
                if framework is not None:
                    with framework.aside():
                        found.append(self.trees.tensor(framework, item))
                elif id(item) not in seen:
                    seen.add(id(item))
                    if isinstance(item, dict):
                        stack.extend(reversed(list(item.values())))
                    elif isinstance(item, (list, tuple)):
                        stack.extend(reversed(item))
                    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
                        stack.extend(reversed([getattr(item, f.name) for f in dataclasses.fields(item)]))
            return found
        finally:
            thread.busy = False
