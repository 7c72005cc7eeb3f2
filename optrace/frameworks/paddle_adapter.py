"""paddle behind the ``Framework`` interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import paddle

from optrace.frameworks import paddle_regions
from optrace.frameworks.base import Framework, Net, Region, Target, TensorInfo, is_a

_DTYPE_NAMES = (
    "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2",
    "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128",
)  # fmt: skip
_DTYPES = {name: getattr(paddle, name) for name in _DTYPE_NAMES if hasattr(paddle, name)}
_NAMES = {d: name for name, d in _DTYPES.items()}
_DtypeClass = type(paddle.float32)
# Element size in bytes: strides count elements, offsets count bytes.
_SIZES = {_DTYPES[name]: np.dtype(getattr(ml_dtypes, name, name)).itemsize for name in _DTYPES}
# ``numpy()`` gives these as integer codes.
_CODED = {
    _DTYPES[name]: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if name in _DTYPES
}
_CODES = {np.dtype(scalar): _NAMES[dtype] for dtype, scalar in _CODED.items()}

_Tensor = paddle.Tensor
_CPU = "Place(cpu)"
# In a build for CPUs alone no tensor can live elsewhere, and asking each one costs microseconds.
_CPU_ONLY = not (
    paddle.is_compiled_with_cuda()
    or paddle.is_compiled_with_xpu()
    or paddle.device.get_all_custom_device_type()
)

# Parameters to paddle, running statistics to everyone else: by attribute, or by the layer's class.
_STATISTICS = frozenset({"_mean", "_variance"})
_SPECTRAL = frozenset({"weight_u", "weight_v"})


class _RngState:
    """Generator states that compare by what they say, without the addresses in their text."""

    def __init__(self) -> None:
        self.cpu = paddle.get_rng_state("cpu")
        self.cuda = paddle.get_cuda_rng_state() if paddle.is_compiled_with_cuda() else []
        self._texts: tuple[str, ...] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RngState) and self._text() == other._text()

    __hash__ = None  # type: ignore[assignment]

    def _text(self) -> tuple[str, ...]:
        if self._texts is None:
            self._texts = tuple(re.sub(r"0x[0-9a-f]+", "", str(state)) for state in (*self.cpu, *self.cuda))
        return self._texts


class _NoNet(Net):
    """paddle needs none: its ``_C_ops`` and tensor methods are all patched."""

    def __enter__(self) -> _NoNet:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class PaddleFramework(Framework):
    """The paddle that this process has imported."""

    name = "paddle"

    def __init__(self) -> None:
        self.version = str(paddle.__version__)
        self._devices = {_CPU: "cpu"}

    # -- tensors ---------------------------------------------------------------------------------

    def is_tensor(self, obj: object) -> bool:
        # An empty tensor holds no memory and so counts as uninitialised to paddle.
        return is_a(obj, _Tensor) and (obj._is_initialized() or 0 in obj.shape)

    def info(self, tensor: Any) -> TensorInfo:
        dtype = tensor.dtype
        device = "cpu" if _CPU_ONLY else self._device(tensor)
        name = _NAMES.get(dtype) or str(dtype).removeprefix("paddle.")
        if not tensor.is_dense() or not tensor._is_initialized():
            # Asking an undefined tensor for its strides ends the process.
            return TensorInfo(tuple(tensor.shape), name, device, None, 0, 0, not tensor.stop_gradient)
        start, size = tensor.offset or 0, _SIZES.get(dtype, 1)
        return TensorInfo(
            tuple(tensor.shape),
            name,
            device,
            tuple(tensor.strides),
            start // size,
            (tensor.data_ptr() or 0) - start,  # the same for every view of one storage
            not tensor.stop_gradient,
        )

    def _device(self, tensor: Any) -> str:
        place = str(tensor.place)
        known = self._devices.get(place)
        if known is None:
            kind, _, index = place.removeprefix("Place(").removesuffix(")").partition(":")
            kind = {"gpu": "cuda", "gpu_pinned": "cpu"}.get(kind, kind)
            known = self._devices[place] = f"{kind}:{index}" if index and kind != "cpu" else kind
        return known

    def inplace_version(self, tensor: Any) -> int:
        # Anything but a dense tensor would log a complaint and answer 0.
        return tensor.inplace_version if tensor.is_dense() else 0

    def to_numpy(self, tensor: Any) -> np.ndarray:
        if not self.is_tensor(tensor) or tensor.is_selected_rows():
            raise TypeError(f"a {type(tensor).__name__} that holds no dense values can't be read")
        if not tensor._is_initialized():
            return np.zeros(tuple(tensor.shape), getattr(ml_dtypes, name := _NAMES[tensor.dtype], name))
        with paddle.no_grad():
            plain = tensor.detach()
            if plain.is_sparse():
                plain = plain.to_dense()  # numpy() of a sparse tensor ends the process
            array = plain.numpy()
        coded = _CODED.get(plain.dtype)
        array = np.ascontiguousarray(array).reshape(tuple(plain.shape))  # numpy() has copied
        return array if coded is None else array.view(coded)

    def from_numpy(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        array = np.asarray(array)
        coded = _CODES.get(array.dtype)
        if coded is None and array.dtype.newbyteorder("=").name not in _DTYPES:
            raise TypeError(f"paddle has no dtype for numpy's {array.dtype}")
        with paddle.no_grad():
            if coded is not None:
                codes = array.view(np.int16 if array.dtype.itemsize == 2 else np.int8)
                tensor = paddle.to_tensor(np.array(codes, copy=True, order="C")).view(coded)
            else:
                tensor = paddle.to_tensor(
                    np.array(array, dtype=array.dtype.newbyteorder("="), copy=True, order="C")
                )
        tensor.stop_gradient = not requires_grad
        return tensor

    def snapshot(self, tensor: Any) -> Any:
        with paddle.no_grad():
            plain = tensor.detach()
            if plain.is_sparse():
                return plain.to_dense()
            return plain.clone().detach() if plain._is_initialized() else plain

    # -- dtypes ----------------------------------------------------------------------------------

    def dtype_name(self, obj: object) -> str | None:
        return _NAMES.get(obj) if type(obj) is _DtypeClass else None

    def dtype(self, name: str) -> Any:
        return _DTYPES[name]

    # -- modules ---------------------------------------------------------------------------------

    def is_module(self, obj: object) -> bool:
        return isinstance(obj, paddle.nn.Layer)

    def named_modules(self, module: Any) -> Iterator[tuple[str, Any]]:
        yield from module.named_sublayers(include_self=True)

    def named_parameters(self, module: Any) -> Iterator[tuple[str, Any]]:
        statistics = {id(tensor) for _, tensor in _statistics(module)}
        for name, tensor in module.named_parameters():
            if id(tensor) not in statistics:
                yield name, tensor

    def named_buffers(self, module: Any) -> Iterator[tuple[str, Any]]:
        yield from _statistics(module)
        for name, tensor in module.named_buffers():
            if self.is_tensor(tensor):  # recurrent layers list one that never gets values
                yield name, tensor

    def assign(self, tensor: Any, array: np.ndarray) -> None:
        array = np.asarray(array)
        if tuple(tensor.shape) != array.shape:
            raise ValueError(
                f"a tensor of shape {tuple(tensor.shape)} can't take values of shape {array.shape}"
            )
        with paddle.no_grad():
            value = self.from_numpy(array)
            if value.dtype != tensor.dtype:
                value = value.astype(tensor.dtype)
            tensor.copy_(value, True)
            tensor._bump_inplace_version()  # copy_ leaves it

    # -- state -----------------------------------------------------------------------------------

    def rng_state(self) -> Any:
        return _RngState()

    def set_rng_state(self, state: Any) -> None:
        # paddle.set_rng_state(state, "cpu") raises in paddle 2.6.
        paddle.framework.core.default_cpu_generator().set_state(state.cpu[0])
        if state.cuda:
            paddle.set_cuda_rng_state(state.cuda)

    def seed(self, value: int) -> None:
        paddle.seed(value)

    def no_grad(self) -> AbstractContextManager[Any]:
        return paddle.no_grad()

    def unfused(self) -> AbstractContextManager[Any]:
        return nullcontext()  # its layers have no fused path of their own

    # -- calls -----------------------------------------------------------------------------------

    def resolve(self, api: str) -> Callable[..., Any]:
        from optrace.frameworks import paddle_targets

        return paddle_targets.resolve(api)

    def targets(self) -> Iterator[Target]:
        from optrace.frameworks import paddle_targets

        return paddle_targets.targets()

    def module_call(self) -> tuple[type, str]:
        return paddle.nn.Layer, "__call__"

    def net(self, observer: Any, originals: dict[int, Callable[..., Any]]) -> Net:
        return _NoNet()

    def regions(self) -> Iterator[Region]:
        return paddle_regions.regions()

    def late_modules(self) -> tuple[str, ...]:
        return ()

    def compiled(self, result: Any) -> Region | None:
        return None  # to_static returns objects whose calls are regions already

    def hidden(self, module: Any) -> str | None:
        return paddle_regions.hidden(module)

    def is_static(self) -> bool:
        return not paddle.in_dynamic_mode()

    def recomputing(self) -> bool:
        return paddle.is_grad_enabled()

    def optimizer_hooks(
        self, before: Callable[[Any], None], after: Callable[[Any], None]
    ) -> Callable[[], None]:
        from optrace.frameworks.paddle_optimizers import watch

        return watch(before, after)


def _statistics(module: Any) -> Iterator[tuple[str, Any]]:
    """Running statistics that ``module`` and what is below it keep as parameters."""
    for prefix, layer in module.named_sublayers(include_self=True):
        names = _SPECTRAL if isinstance(layer, paddle.nn.SpectralNorm) else _STATISTICS
        for name, tensor in layer._parameters.items():
            if name in names and tensor is not None and tensor.stop_gradient:
                yield f"{prefix}.{name}" if prefix else name, tensor


def adapter() -> Framework:
    """The adapter of the imported paddle."""
    return PaddleFramework()
