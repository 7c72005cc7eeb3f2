"""The hot path: turns observed calls into records. One recorder serves one trace, all threads."""

from __future__ import annotations

import dataclasses
import sys
import threading
import zlib
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from optrace.frameworks.base import Framework
from optrace.frameworks.generators import seeded
from optrace.frameworks.views import stamp_of
from optrace.trace import sites
from optrace.trace.arguments import MAX_DEPTH, MAX_ITEMS, MAX_TOTAL, plain, text_of
from optrace.trace.draws import DrawWatch
from optrace.trace.identity import Identities
from optrace.trace.model import Trace
from optrace.trace.modules import ModulePaths
from optrace.trace.records import Call, DtypeRef, Opaque, TensorRef
from optrace.trace.training import TrainingRecorder
from optrace.transparent import transparent

BACKWARD = frozenset(
    f"{name}.backward" for name in ("torch.Tensor", "torch.autograd", "paddle.Tensor", "paddle.autograd")
) | {"torch.autograd.grad", "paddle.grad"}
HOOKS = frozenset({"torch.Tensor.register_hook", "paddle.Tensor.register_hook"})
# They change a tensor without counting a version.
SETTERS = frozenset({"paddle.Tensor.set_value", "paddle.Tensor.copy_"})


class _Thread(threading.local):
    """What one thread is in the middle of."""

    def __init__(self) -> None:
        self.busy = False  # the recorder's own tensor work, never recorded
        self.open: list[Call] = []
        self.functions: list[Any] = []  # the callables behind ``open``
        self.modules: list[tuple[str, str]] = []
        self.evaluating: list[bool] = []  # of each open module: whether it is in eval mode
        self.phase = "forward"
        self.stepping: FrameType | None = None  # the frame of the optimizer's step under way
        self.left = 0  # how many more items of containers the call under way may list
        self.first_order = True  # the backward pass under way makes no graph of its own


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

    def __init__(self, trace: Trace, frameworks: list[Framework]) -> None:
        self.trace = trace
        self.frameworks = frameworks
        self.thread = _Thread()
        self.identities = Identities()
        self.step = 0
        self.training = TrainingRecorder(self)
        self.draws = DrawWatch(trace)
        self.modules = ModulePaths(self.identities, self.training.buffer)
        self._digests: dict[int, tuple[int, int]] = {}  # of named tensors: version and checksum
        self._epoch = 0  # goes up where parameters may have changed unseen
        self._lock = threading.Lock()
        self._keep_values = trace.level == "full"
        self._keep_stats = trace.level == "stats"

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
        if thread.busy or (thread.functions and _same(thread.functions[-1], function)):
            return run(*args, **kwargs)
        call = self._begin(thread, api, args, kwargs)
        if call is None:
            return run(*args, **kwargs)
        depth, before = len(thread.open), thread.phase
        state = self._state(thread, api)
        try:
            thread.open.append(call)
            thread.functions.append(function)
            if api in BACKWARD:
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
        self._end(thread, call, function, result, args, kwargs)
        return result

    @transparent
    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = self.thread
        if thread.busy:
            return function(module, *args, **kwargs)
        depth, before = len(thread.modules), thread.phase
        try:
            thread.modules.append(self._module(thread, module))
            thread.evaluating.append(getattr(module, "training", True) is False)
            if before == "optimizer":
                # A closure, run again by the optimizer; ends with its backward pass.
                before = thread.phase = "forward"
            return function(module, *args, **kwargs)
        finally:
            del thread.modules[depth:], thread.evaluating[depth:]
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

    def _enter_backward(self, thread: _Thread, call: Call) -> None:
        given = call.keyword.get("create_graph", False)
        place = 4 if call.api.endswith("grad") else 3
        if len(call.positional) > place:
            given = call.positional[place]
        thread.phase, thread.first_order = "backward", not given

    def _phase(self, thread: _Thread, framework: Framework, api: str) -> str:
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
        self._epoch += 1

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

    def _check_stepping(self, thread: _Thread) -> None:
        """Leave the phase when the step has been left by an exception."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not thread.stepping:
            frame = frame.f_back
        if frame is None:
            thread.stepping, thread.phase = None, "forward"

    # -- records ---------------------------------------------------------------------------------

    def _module(self, thread: _Thread, module: Any) -> tuple[str, str]:
        thread.busy = True
        try:
            framework = next(f for f in self.frameworks if f.is_module(module))
            if not thread.modules:
                self._epoch += 1
            return self.modules.enter(framework, module, not thread.modules), type(module).__name__
        except Exception as error:
            self.trace.count_error("module", error)
            return "?", type(module).__name__
        finally:
            thread.busy = False

    def _begin(self, thread: _Thread, api: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        thread.busy = True
        try:
            framework = self._framework(api)
            thread.left = MAX_TOTAL
            positional = [self._record(framework, a) for a in args]
            keyword = {k: self._record(framework, v) for k, v in kwargs.items()}
            module = thread.modules[-1] if thread.modules else (None, None)
            with self._lock:
                call = Call(
                    id=len(self.trace.calls),
                    api=api,
                    framework=framework.name,
                    positional=positional,
                    keyword=keyword,
                    site=sites.find(3),
                    module=module[0],
                    module_type=module[1],
                    parent=thread.open[-1].id if thread.open else -1,
                    phase=self._phase(thread, framework, api),
                    step=self.step,
                    thread=threading.get_ident(),
                )
                self.trace.append(call)
            return call
        except Exception as error:
            self.trace.count_error(api, error)
            return None
        finally:
            thread.busy = False

    def _end(self, thread: _Thread, call: Call, function: Any, result: Any, args: Any, kwargs: Any) -> None:
        thread.busy = True
        try:
            framework = self._framework(call.api)
            thread.left = MAX_TOTAL
            call.outputs = self._record(framework, result)
            if call.api in SETTERS and isinstance(call.positional[0], TensorRef):
                self.identities.refresh(call.positional[0].uid)
            self._note_inplace(framework, call, args, kwargs)
            if call.api in HOOKS and isinstance(call.positional[0], TensorRef):
                self.training.hooked(framework, args[0], call.positional[0])
            self.trace.finish(call, function)
        except Exception as error:
            self.trace.count_error(call.api, error)
        finally:
            thread.busy = False

    def _state(self, thread: _Thread, api: str) -> Any:
        """The generator's state where it is to be watched."""
        thread.busy = True
        try:
            return self.draws.before(self._framework(api), api)
        except Exception as error:
            self.trace.count_error(api, error)
            return None
        finally:
            thread.busy = False

    def _drawn(self, call: Call, state: Any, function: Any, args: Any, kwargs: Any) -> None:
        self.draws.after(self._framework(call.api), call, state, function, args, kwargs)
        if call.random:
            call.seeded = seeded(call.framework)
            if self.thread.evaluating and self.thread.evaluating[-1]:
                call.context = (*call.context, "eval mode")

    def _fail(self, thread: _Thread, call: Call) -> None:
        thread.busy = True
        try:
            self.trace.fail(call)
        except Exception as error:
            self.trace.count_error(call.api, error)
        finally:
            thread.busy = False

    def _note_inplace(self, framework: Framework, call: Call, args: Any, kwargs: Any) -> None:
        """A call whose tensor argument has a new version afterwards changed it in place."""
        changed: list[TensorRef] = []
        live = [(r, a) for r, a in zip(call.positional, args) if isinstance(r, TensorRef) and r.uid > 0]
        live += [(r, kwargs[k]) for k, r in call.keyword.items() if isinstance(r, TensorRef) and r.uid > 0]
        for ref, tensor in live:
            if self.identities.version(framework, tensor, ref.uid) != ref.version:
                changed.append(self._record(framework, tensor))
        if changed:
            call.inplace = True
            call.mutated = changed

    def _framework(self, api: str) -> Framework:
        name = api[: api.index(".")]
        for f in self.frameworks:
            if f.name == name:
                return f
        raise LookupError(name)

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
                    found.append(self._tensor(framework, item))
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

    # -- argument trees --------------------------------------------------------------------------

    def _record(self, framework: Framework, obj: Any, inside: tuple[int, ...] = ()) -> Any:
        kind = type(obj)
        if obj is None or kind in (bool, int, float, str):
            return plain(obj)
        if framework.is_tensor(obj):
            return self._tensor(framework, obj)
        if kind is list or kind is tuple or isinstance(obj, (list, tuple, dict)):
            return self._container(framework, obj, (*inside, id(obj)))
        dtype = framework.dtype_name(obj)
        if dtype is not None:
            return DtypeRef(dtype)
        if kind is slice:
            return slice(*(self._record(framework, o, inside) for o in (obj.start, obj.stop, obj.step)))
        if isinstance(obj, np.ndarray):
            return self.trace.array(obj)
        if isinstance(obj, (bool, int, float, str, complex, np.generic)) or obj is Ellipsis:
            return plain(obj)
        for other in self.frameworks:
            if other is not framework and other.is_tensor(obj):
                return self._tensor(other, obj)
        return Opaque(kind.__name__, framework.unreadable(obj) or text_of(obj), obj)

    def _container(self, framework: Framework, obj: Any, inside: tuple[int, ...]) -> Any:
        """What a list, tuple or dictionary holds; a placeholder for one that is cyclic, vast or broken."""
        thread = self.thread
        try:
            size = len(obj)
            too_much = (
                size > MAX_ITEMS or len(inside) > MAX_DEPTH or inside[-1] in inside[:-1] or size > thread.left
            )
            items = [] if too_much else list(obj.items() if isinstance(obj, dict) else obj)
        except Exception as error:  # the program's own container fails
            return Opaque(type(obj).__name__, f"<{type(error).__name__}>", obj)
        if too_much:
            return Opaque(type(obj).__name__, f"{size} items", obj)
        thread.left -= size
        if isinstance(obj, dict):
            return {k if type(k) is str else text_of(k): self._record(framework, v, inside) for k, v in items}
        found = [self._record(framework, o, inside) for o in items]
        return found if isinstance(obj, list) else tuple(found)

    def _tensor(self, framework: Framework, tensor: Any) -> TensorRef:
        stamp = stamp_of(framework.name)(tensor)
        ref = self.identities.ref(tensor, stamp) if stamp is not None else None
        if ref is None or (ref.path is not None and self._keep_values):
            ref = self._describe(framework, tensor)
            if stamp is not None:
                self.identities.remember(tensor, stamp, ref)
        trace = self.trace
        if self._keep_values:
            if not trace.holds(ref.key):
                trace.keep(ref, framework, tensor)
            if ref.requires_grad and self.training.on and self.thread.phase not in ("backward", "optimizer"):
                self.training.made(framework, tensor, ref)
        elif self._keep_stats and ref.key not in trace.fingerprints:
            trace.summarise(ref, framework, tensor)
        return ref

    def _describe(self, framework: Framework, tensor: Any) -> TensorRef:
        shape, dtype, device, strides, offset, storage, requires_grad = framework.info(tensor)
        uid, path = self.identities.uid(tensor), self.identities.path(tensor)
        if path is not None and self._keep_values and self.identities.due(uid, self._epoch):
            self._check_version(framework, tensor, uid)
        version = self.identities.version(framework, tensor, uid)
        return TensorRef(uid, version, shape, dtype, device, strides, offset, storage, requires_grad, path)

    def _check_version(self, framework: Framework, tensor: Any, uid: int) -> None:
        """A parameter or buffer may have been changed behind its version counter."""
        try:
            digest = zlib.crc32(framework.to_numpy(tensor).tobytes())
        except TypeError:
            return  # no readable values
        version = self.identities.version(framework, tensor, uid)
        known = self._digests.get(uid)
        if known is not None and known[0] == version and known[1] != digest:
            self.identities.refresh(uid)
            version += 1
        self._digests[uid] = (version, digest)
