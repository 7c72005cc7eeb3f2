"""Functions of paddle inside which recording changes: graph building, printing, data loading."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from optrace.frameworks.base import Region

_REGIONS = (
    (
        "paddle.jit.dy2static.program_translator",
        "ASTStaticFunction._perform_call",
        "opaque",
        "paddle.jit.to_static",
    ),
    (
        "paddle.jit.dy2static.program_translator",
        "SymbolicStaticFunction._perform_call",
        "opaque",
        "paddle.jit.to_static",
    ),
    (
        "paddle.jit.dy2static.program_translator",
        "ASTStaticFunction.get_concrete_program",
        "opaque",
        "paddle.jit.to_static",
    ),
    ("paddle.jit.api", "save", "opaque", "paddle.jit.save"),
    ("paddle.jit.api", "load", "opaque", "paddle.jit.load"),
    ("paddle.base.dygraph.base", "enable_dygraph", "mode", "paddle.disable_static"),
    ("paddle.base.dygraph.base", "disable_dygraph", "mode", "paddle.enable_static"),
    ("paddle.tensor.to_string", "tensor_to_string", "quiet", "repr"),
    ("paddle.tensor.to_string", "to_string", "quiet", "repr"),
    ("paddle.io.reader", "DataLoader.__iter__", "data", "DataLoader"),
    ("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterSingleProcess.__next__", "data", "DataLoader"),
    ("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterMultiProcess.__next__", "data", "DataLoader"),
)


def regions() -> Iterator[Region]:
    """Those in modules that are imported by now."""
    for module, path, kind, name in _REGIONS:
        function: Any = sys.modules.get(module)
        for part in path.split("."):
            function = getattr(function, part, None)
        if isinstance(function, types.FunctionType):
            yield Region(function, kind, name, None, _static_function if kind == "opaque" else None)


def _static_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Which function is a graph: a ``StaticFunction`` keeps the one it was made from."""
    function = getattr(args[0], "dygraph_function", args[0]) if args else None
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
    return type(function).__qualname__


def hidden(module: Any) -> str | None:
    """A layer loaded from a saved graph runs in C++."""
    if type(module).__name__ in ("TranslatedLayer", "PirTranslatedLayer"):
        return f"paddle.jit.load: {type(module).__name__}"
    return None
