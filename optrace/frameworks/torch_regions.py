"""Functions of torch inside which recording changes: compilers, tracers, printing, data loading."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from optrace.frameworks.base import Region

# (module, dotted name in it, kind, what to call it). A module that is not imported has no region yet.
_REGIONS = (
    ("torch.jit._script", "script", "opaque", "torch.jit.script"),
    ("torch.jit._trace", "trace", "opaque", "torch.jit.trace"),
    ("torch.jit._trace", "trace_module", "opaque", "torch.jit.trace_module"),
    ("torch.jit._freeze", "freeze", "opaque", "torch.jit.freeze"),
    ("torch.fx._symbolic_trace", "Tracer.trace", "opaque", "torch.fx"),
    ("torch.fx.experimental.proxy_tensor", "_MakefxTracer._trace_inner", "opaque", "make_fx"),
    ("torch.export", "export", "opaque", "torch.export"),
    ("torch.export._trace", "_export", "opaque", "torch.export"),
    ("torch._dynamo.eval_frame", "export", "opaque", "torch._dynamo.export"),
    ("torch._dynamo.eval_frame", "_TorchDynamoContext.__call__", "lifted", "torch.compile"),
    ("torch._tensor_str", "_str", "quiet", "repr"),
    # A mode is per thread.
    ("threading", "Thread.run", "thread", "thread"),
    ("concurrent.futures.thread", "_WorkItem.run", "thread", "thread"),
    ("torch.utils.data.dataloader", "DataLoader.__iter__", "data", "DataLoader"),
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__", "data", "DataLoader"),
)
LATE_MODULES = (
    "concurrent.futures.thread",
    "torch._dynamo.eval_frame",
    "torch.export._trace",
    "torch.fx.experimental.proxy_tensor",
)
_FRAMES = {"torch.jit.script": "_frames_up"}
_code: list[types.CodeType] = []


def regions() -> Iterator[Region]:
    """Those in modules that are imported by now, and every function compiled by now."""
    code = _compiled_code()
    for module, path, kind, name in _REGIONS:
        function: Any = sys.modules.get(module)
        for part in path.split("."):
            function = getattr(function, part, None)
        if isinstance(function, types.FunctionType):
            yield Region(
                function, kind, name, _FRAMES.get(name), _first_argument if kind == "opaque" else None
            )
    if code is not None:
        for function in gc.get_referrers(code):
            if isinstance(function, types.FunctionType):
                yield _compiled_region(function)


def _compiled_code() -> types.CodeType | None:
    """The code shared by all functions that ``torch.compile`` returns; read before its maker is diverted."""
    if not _code:
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        maker = getattr(dynamo, "_TorchDynamoContext", None)
        constants = maker.__call__.__code__.co_consts if maker is not None else ()
        for constant in constants:
            if isinstance(constant, types.CodeType) and constant.co_name == "compile_wrapper":
                _code.append(constant)
    return _code[0] if _code else None


def compiled(result: Any) -> Region | None:
    """The region that ``torch.compile`` has just made."""
    code = _compiled_code()
    if code is not None and isinstance(result, types.FunctionType) and result.__code__ is code:
        return _compiled_region(result)
    return None


def _compiled_region(function: types.FunctionType) -> Region:
    text = _text(getattr(function, "__wrapped__", function))
    return Region(function, "opaque", "torch.compile", None, lambda args, kwargs: text)


def _first_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Which function or module is compiled: the first argument that is no compiler itself."""
    for arg in (*args, *kwargs.values()):
        module = type(arg).__module__
        if callable(arg) and not module.startswith(("torch._dynamo", "torch.fx", "torch.export")):
            return _text(arg)
    return "?"


def _text(obj: Any) -> str:
    if isinstance(getattr(obj, "__self__", None), torch.nn.Module):
        obj = type(obj.__self__).forward
    code = getattr(obj, "__code__", None)
    if code is not None:
        return f"{getattr(obj, '__qualname__', code.co_name)} ({code.co_filename}:{code.co_firstlineno})"
    return str(getattr(obj, "__qualname__", type(obj).__qualname__))


def hidden(module: Any) -> str | None:
    """Scripted and traced modules run in C++."""
    if isinstance(module, torch.jit.ScriptModule):
        return f"torch.jit: {getattr(module, 'original_name', type(module).__name__)}"
    return None
