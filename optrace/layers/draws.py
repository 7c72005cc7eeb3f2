"""Random layers: the other side draws what base drew, where layers are compared in train mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from optrace.frameworks.base import Framework
from optrace.randomness import replay_random
from optrace.trace.model import Trace
from optrace.trace.session import trace


class Draws:
    """Base's draws of one run, handed to raw. ``train`` as in ``auto_diff``; in eval mode nothing is recorded."""

    def __init__(self, framework: Framework, model: Any, train: bool | None) -> None:
        self._framework = framework
        modules = (m for _, m in framework.named_modules(model))
        self._drawing = train is True or (train is None and any(m.training for m in modules))
        self._made: Trace | None = None

    @contextmanager
    def recorded(self) -> Iterator[None]:
        if not self._drawing:
            yield
            return
        with trace(level="full", frameworks=[self._framework.name]) as self._made:
            yield

    def replayed(self) -> AbstractContextManager[Any]:
        return replay_random(self._made) if self._made is not None else nullcontext()
