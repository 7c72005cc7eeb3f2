"""Quick looks at paddle's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

TENSORS = frozenset({paddle.Tensor})
_NATIVE = frozenset({
    paddle.float32, paddle.float64, paddle.float16, paddle.int64, paddle.int32, paddle.int16, paddle.int8,
    paddle.uint8, paddle.bool,
})  # fmt: skip
# From this many elements on, sharing memory costs less than copying it.
_SHARE = 1 << 14
_on_gpu = paddle.is_compiled_with_cuda() or paddle.is_compiled_with_xpu()


def view(tensor: Any) -> np.ndarray | None:
    """The values, without a copy where they are many; ``None`` for anything but an ordinary CPU tensor."""
    if _on_gpu or tensor.dtype not in _NATIVE or not tensor.is_dense() or not tensor._is_initialized():
        return None
    if tensor.size < _SHARE or tensor.dtype == paddle.bool:
        array = tensor.numpy()
        return array if array.shape == tuple(tensor.shape) else None
    return np.from_dlpack(tensor.detach())


def stamp(tensor: Any) -> tuple[int, bool, int] | None:
    """Version, stop_gradient and address; ``None`` for odd tensors."""
    if not tensor.is_dense() or not tensor._is_initialized():
        return None
    return tensor.inplace_version, tensor.stop_gradient, tensor.data_ptr()


def version(tensor: Any) -> int:
    """Counts in-place changes."""
    return tensor.inplace_version if tensor.is_dense() else 0
