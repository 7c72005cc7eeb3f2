"""``optrace.trace``: install the patches, record, put everything back."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from optrace import frameworks as adapters
from optrace.frameworks.base import Framework
from optrace.intercept.hub import Hub, hub_of
from optrace.intercept.late_import import when_ready
from optrace.trace.model import Trace
from optrace.trace.naming import promote
from optrace.trace.recorder import Recorder
from optrace.trace.selection import EVERYTHING, Selection
from optrace.trace.spool import Spool

_lock = threading.RLock()
_log = logging.getLogger(__name__)
# Different errors of ours that are told at the end of a trace.
_MOST_SHOWN = 5


class trace:
    """Record every framework call made inside the ``with`` block.

    ``select``: which part of a long run (steps, modules, calls) is recorded; all of it by default.
    ``level``: ``"meta"``, ``"stats"`` or ``"full"``; ``out``: a folder to write the trace to as it
    happens, so that a run that is killed leaves what it had done; ``frameworks``: names to record (default: all, whichever are imported before or during).
    The block's value is the ``Trace``. Patches are removed however the block ends.
    """

    def __init__(
        self,
        level: str = "stats",
        out: str | Path | None = None,
        frameworks: Iterable[str] | None = None,
        select: Selection | None = None,
    ) -> None:
        self._names = tuple(frameworks) if frameworks is not None else adapters.NAMES
        for name in self._names:
            if name not in adapters.NAMES:
                raise ValueError(f"unknown framework {name!r}; optrace records {', '.join(adapters.NAMES)}")
        self._out = Path(out) if out is not None else None
        self._trace = Trace(level)
        self._recorder = Recorder(self._trace, [], select or EVERYTHING)
        self._hubs: list[tuple[Hub, bool]] = []
        self._cancel: list[Callable[[], None]] = []
        self._unhook: list[Callable[[], None]] = []
        self._thread = self._process = 0

    def __enter__(self) -> Trace:
        self._thread, self._process = threading.get_ident(), os.getpid()
        if self._out is not None:
            self._trace.spool = self._trace.stored = Spool(self._out, self._trace, self._recorder.quietly)
        try:
            with _lock:
                for name in self._names:
                    if not self._attach(name):
                        self._cancel.append(when_ready(name, self._attach_late))
        except BaseException:  # an interrupt: there will be no __exit__
            self._detach()
            self._close()
            raise
        return self._trace

    def __exit__(self, kind: Any = None, error: BaseException | None = None, *_: object) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self._trace.end_with(error)
        self._detach()
        try:
            promote(self._trace.calls)
            _log.info("recorded %d calls", len(self._trace.calls))
        except Exception as error:
            self._trace.count_error("naming", error)
        if os.getpid() == self._process:
            self._close()
            if self._trace.errors:
                self.tell(_own_errors(self._trace.errors))

    @staticmethod
    def tell(message: str) -> None:
        """What the person who traces should know once the trace has ended. Never raises."""
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        except RuntimeWarning:  # the program turns warnings into errors; this one is not its own
            print(f"optrace: {message}", file=sys.stderr)

    def _close(self) -> None:
        """End the trace on disk; what goes wrong there is no error of the program's."""
        spool, self._trace.spool = self._trace.spool, None
        if spool is None:
            return
        try:
            spool.finish()
            failed: Exception | None = spool.writer.failed
        except Exception as error:
            failed = error
        if failed is not None:
            self._trace.count_error(f"writing to {self._out}", failed)
            self.tell(
                f"the trace in {self._out} ends early: {failed}; free some space, choose another folder, "
                'or trace at level="stats"'
            )

    def _detach(self) -> None:
        self._recorder.finish()
        with _lock:
            while self._cancel:
                self._cancel.pop()()
            while self._hubs:
                hub, hung = self._hubs.pop()
                if hung and threading.get_ident() == self._thread:
                    hub.leave_thread()
                hub.remove(self._recorder)
            while self._unhook:
                self._unhook.pop()()

    def watch_generators(self) -> None:
        """Look at the generators across every call, not only across those known to draw."""
        self._recorder.draws.everything = True

    def name(self, module: Any) -> None:
        """Name parameters and modules from ``module`` down before it is called."""
        framework = adapters.of_module(module)
        self._recorder.quietly(self._recorder.modules.enter, (framework, module, True), {})

    def in_phase(self, phase: str, function: Callable[..., Any], *args: Any) -> Any:
        """``function(*args)``, whose calls belong to ``phase``."""
        return self._recorder.in_phase(phase, function, args, {})

    def step(self, optimizer: Any, parameters: Iterable[Any]) -> None:
        """``optimizer.step()`` of an optimizer that the framework does not know."""
        self._recorder.before_step(optimizer, parameters)
        optimizer.step()
        self._recorder.after_step(optimizer)

    def record(self, tree: Any) -> Any:
        """References to the tensors in ``tree`` (dataclasses and mappings included), as recorded."""
        return self._recorder.refer(tree)

    def _attach(self, name: str) -> bool:
        """Record the framework of that name; ``False`` while it is not there."""
        try:
            framework = adapters.loaded(name)
            if framework is not None:
                self._patch(framework)
            return framework is not None
        except Exception as error:
            self._trace.count_error(f"starting to record {name}", error)
            return True

    def _patch(self, framework: Framework) -> None:
        self._recorder.frameworks.append(framework)
        self._trace.meta["versions"][framework.name] = framework.version
        hub, recorder = hub_of(framework), self._recorder
        hub.add(recorder)
        hung = threading.get_ident() == self._thread
        if hung:
            hub.enter_thread()
        self._hubs.append((hub, hung))
        if self._trace.spool is not None:
            self._trace.spool.writer.meta(self._trace.meta)
        self._unhook.append(framework.optimizer_hooks(recorder.before_step, recorder.after_step))
        _log.info("recording %s %s at level %s", framework.name, framework.version, self._trace.level)

    def _attach_late(self, name: str) -> None:
        with _lock:
            self._attach(name)


def _own_errors(errors: Counter[str]) -> str:
    """Errors of ours that the program was spared, and what to do about them."""
    shown = [f"  {text} ({count} times)" for text, count in errors.most_common(_MOST_SHOWN)]
    if len(errors) > _MOST_SHOWN:
        shown.append(f"  and {len(errors) - _MOST_SHOWN} more in the trace's errors")
    return (
        f"the trace lacks something: {sum(errors.values())} errors inside the tracer (the program was not affected)\n"
        + "\n".join(shown)
        + '\nwhat else the trace holds is right; level="meta" looks at less, and "optrace doctor" checks the installation'
    )
