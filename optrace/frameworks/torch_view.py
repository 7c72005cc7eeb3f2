"""Quick looks at torch's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

TENSORS = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
_NATIVE = frozenset({
    torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool,
})  # fmt: skip
_strided = torch.strided
_modes = torch._C._len_torch_dispatch_stack
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def view(tensor: Any) -> np.ndarray | None:
    """The values without a copy; ``None`` for anything but an ordinary CPU tensor of a dtype numpy knows."""
    if type(tensor) not in TENSORS or _modes():
        return None
    if (
        tensor.dtype not in _NATIVE
        or tensor.layout is not _strided
        or not tensor.is_cpu
        or _is_wrapped(tensor)
    ):
        return None
    if tensor.requires_grad:
        return tensor.detach().numpy()
    # Conjugate and negative views can't be had without a copy.
    return None if tensor.is_neg() else tensor.numpy()


def stamp(tensor: Any) -> tuple[int, bool, int] | None:
    """Version, requires_grad and address; ``None`` for odd tensors."""
    if type(tensor) not in TENSORS or _modes() or _is_wrapped(tensor):
        return None
    try:
        return tensor._version, tensor.requires_grad, tensor.data_ptr()
    except RuntimeError:  # no version (inference) or no address (fake, sparse)
        return None


def version(tensor: Any) -> int:
    """Counts in-place changes; 0 for inference tensors, which count none."""
    try:
        return tensor._version
    except RuntimeError:
        return 0
