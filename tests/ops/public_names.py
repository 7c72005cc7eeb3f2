"""The public tensor names of both frameworks, as the frameworks themselves list them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import paddle
import torch

from optrace.frameworks import paddle_targets, torch_targets

THIS = {"torch": torch.__version__.split("+")[0], "paddle": paddle.__version__}
# The versions that the table was written for; on others names come and go.
WRITTEN_FOR = {"torch": "2.13.0", "paddle": "3.3.1"}
TORCH_NAMESPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
# Where torch's Python functions are defined; the rest of what ``torch`` holds is no tensor call.
TORCH_HOMES = ("torch.functional", "torch.nn.functional", "torch._linalg", "torch._lowrank", "torch._lobpcg")


def torch_names() -> Iterator[str]:
    for namespace in TORCH_NAMESPACES:
        module = torch
        for part in namespace.split(".")[1:]:
            module = getattr(module, part)
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith("_") or name in torch_targets.NOT_OPS or not callable(value):
                continue
            if inspect.isclass(value) or inspect.ismodule(value):
                continue
            if inspect.isfunction(value) and not (value.__module__ or "").startswith(TORCH_HOMES):
                continue
            yield f"{namespace}.{name}"
    skipped = torch_targets.NOT_OPS | torch_targets.NOT_OP_DUNDERS
    for name in dir(torch.Tensor):
        private = name.startswith("_") and not name.startswith("__")
        if name in skipped or private or name.startswith("is_"):
            continue
        value = getattr(torch.Tensor, name, None)
        if callable(value) and not inspect.isclass(value):
            yield f"torch.Tensor.{name}"


def paddle_names() -> Iterator[str]:
    """``paddle._C_ops`` included."""
    assert paddle.__version__
    for target in paddle_targets.targets():
        if target.api not in paddle_targets.BACKWARD:
            yield target.api
