"""Runs a script or a module as ``python`` would: ``__main__``, ``sys.argv``, ``sys.path``, exit status."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from optrace.errors import OptraceError


class ScriptError(OptraceError):
    """The script or module to run can't be found or compiled."""


class Program:
    """A script or module, found and compiled but not yet run."""

    def __init__(self, target: str, arguments: Sequence[str], as_module: bool) -> None:
        self._spec: ModuleSpec | None = None
        if as_module:
            self._path = os.getcwd()
            sys.path.insert(0, self._path)
            try:
                self._spec, self.file = _module_spec(target)
            finally:
                sys.path.remove(self._path)
            self._code = _module_code(self._spec)
        else:
            self.file = os.path.abspath(target)
            self._path = os.path.dirname(os.path.realpath(target))
            self._code = _script_code(target, self.file)
        self._argv = [self.file if as_module else target, *arguments]

    def prepare(self) -> None:
        """Make the process look as it does to a program that ``python`` runs."""
        main = ModuleType("__main__")
        main.__dict__.update(__file__=self.file, __spec__=self._spec, __builtins__=__builtins__)
        main.__dict__["__package__"] = self._spec.parent if self._spec is not None else None
        main.__dict__["__loader__"] = self._spec.loader if self._spec is not None else None
        # Left in place afterwards: exit handlers and threads of the program still use it.
        sys.modules["__main__"] = main
        sys.argv = self._argv
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = self._path

    def run(self) -> None:
        """Execute it; whatever it raises passes through."""
        exec(self._code, sys.modules["__main__"].__dict__)


def print_exception(error: BaseException) -> None:
    """The program's traceback as python prints it, without the frames of this module."""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and not _last_of_ours(traceback):
        traceback = traceback.tb_next
    own = traceback.tb_next if traceback is not None else error.__traceback__
    sys.excepthook(type(error), error.with_traceback(own), own)


def _last_of_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code is Program.run.__code__


def _script_code(path: str, full: str) -> CodeType:
    if Path(path).is_dir():
        raise ScriptError(f"{path} is a folder; name a script, or use -m for a package")
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        raise ScriptError(f"can't open {path}: {error.strerror or error}") from error
    try:
        return compile(source, full, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ScriptError(f"{path} is not a Python script: {error}") from error


def _module_spec(name: str) -> tuple[ModuleSpec, str]:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ScriptError(f"can't find module {name}: {error}") from error
    if spec is None or spec.origin is None:
        raise ScriptError(f"no module named {name}, or it is a package without __main__")
    return spec, spec.origin


def _module_code(spec: ModuleSpec) -> CodeType:
    loader: Any = spec.loader
    try:
        code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    except SyntaxError as error:
        raise ScriptError(f"{spec.name} can't be compiled: {error}") from error
    if code is None:
        raise ScriptError(f"{spec.name} is not a Python module that can be run")
    return code
