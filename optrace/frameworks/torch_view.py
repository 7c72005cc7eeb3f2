"""A torch tensor's memory as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
_NATIVE = frozenset({
    torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool,
})  # fmt: skip
_strided = torch.strided
_modes = torch._C._len_torch_dispatch_stack
_hidden = torch._C.DisableTorchFunction
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def view(tensor: Any) -> np.ndarray | None:
    """The values without a copy; ``None`` for anything but an ordinary CPU tensor of a dtype numpy knows."""
    if type(tensor) not in _PLAIN or _modes():
        return None
    with _hidden():
        if (
            tensor.dtype not in _NATIVE
            or tensor.layout is not _strided
            or not tensor.is_cpu
            or _is_wrapped(tensor)
        ):
            return None
        # Conjugate and negative views can't be had without a copy.
        return (
            tensor.detach().numpy()
            if tensor.requires_grad
            else tensor.numpy()
            if not tensor.is_neg()
            else None
        )


def stamp(tensor: Any) -> tuple[int, bool, int] | None:
    """What changes when a tensor's description does: version, requires_grad, address; ``None`` for odd ones."""
    if type(tensor) not in _PLAIN or _modes():
        return None
    try:
        with _hidden():
            return tensor._version, tensor.requires_grad, tensor.data_ptr()
    except RuntimeError:  # no version (inference) or no address (fake, sparse, wrapped)
        return None
