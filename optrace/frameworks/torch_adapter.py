"""torch behind the ``Framework`` interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

from optrace.frameworks import torch_regions
from optrace.frameworks.base import Framework, Net, Region, Target, TensorInfo, is_a

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
_UNREADABLE = (FakeTensor, FunctionalTensor, torch.nn.parameter.UninitializedTensorMixin)
_NAMES = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
_DTYPES = {name: d for d, name in _NAMES.items()}
# Values that numpy has no dtype for travel as integers of the same width.
_CODED = {
    _DTYPES[name]: (torch.int16 if size == 2 else torch.uint8, getattr(ml_dtypes, name))
    for name, size in (
        ("bfloat16", 2),
        ("float8_e4m3fn", 1),
        ("float8_e5m2", 1),
        ("float8_e4m3fnuz", 1),
        ("float8_e5m2fnuz", 1),
        ("float8_e8m0fnu", 1),
    )
    if name in _DTYPES
}
_CODES = {np.dtype(scalar): (code, dtype) for dtype, (code, scalar) in _CODED.items()}

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
# Our own look at a tensor is no business of its subclass or of the program's modes.
_aside = torch._C.DisableTorchFunction
_strided = torch.strided


class TorchFramework(Framework):
    """The torch that this process has imported."""

    name = "torch"
    aside = torch._C.DisableTorchFunction

    def __init__(self) -> None:
        self.version = str(torch.__version__)
        self._devices: dict[torch.device, str] = {}

    # -- tensors ---------------------------------------------------------------------------------

    def is_tensor(self, obj: object) -> bool:
        if type(obj) not in _PLAIN and (not is_a(obj, torch.Tensor) or isinstance(obj, _UNREADABLE)):
            return False
        return not _is_wrapped(obj)

    def unreadable(self, obj: object) -> str | None:
        if not is_a(obj, torch.Tensor) or isinstance(obj, torch.nn.parameter.UninitializedTensorMixin):
            return None
        with _aside():
            where = "inside a transform" if _is_wrapped(obj) else type(obj).__name__
            return f"{_NAMES[obj.dtype]} {list(obj.shape)}, {where}"

    def info(self, tensor: Any) -> TensorInfo:
        with _aside():
            return self._info(tensor)

    def _info(self, tensor: Any) -> TensorInfo:
        device = tensor.device
        text = self._devices.get(device)
        if text is None:
            text = self._devices[device] = str(device)
        name = _NAMES[tensor.dtype]
        if tensor.is_nested:
            return TensorInfo(_nested_shape(tensor), name, text, None, 0, 0, tensor.requires_grad)
        if tensor.layout is not _strided:
            return TensorInfo(tuple(tensor.shape), name, text, None, 0, 0, tensor.requires_grad)
        try:
            storage = tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):  # wrapper subclasses own no storage
            storage = 0
        return TensorInfo(
            tuple(tensor.shape),
            name,
            text,
            tensor.stride(),
            tensor.storage_offset(),
            storage,
            tensor.requires_grad,
        )

    def inplace_version(self, tensor: Any) -> int:
        try:
            with _aside():
                return tensor._version
        except RuntimeError:  # inference tensors keep none
            return 0

    def to_numpy(self, tensor: Any) -> np.ndarray:
        with torch.no_grad(), _unseen():
            plain = _dense(tensor)
            coded = _CODED.get(plain.dtype)
            if coded is None:
                return np.array(plain.numpy(), copy=True, order="C")
            return np.array(plain.view(coded[0]).numpy(), copy=True, order="C").view(coded[1])

    def from_numpy(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        array = np.asarray(array)
        code = _CODES.get(array.dtype)
        if code is not None:
            native = np.array(
                array.view(np.int16 if code[0] is torch.int16 else np.uint8), copy=True, order="C"
            )
            tensor = torch.from_numpy(native).view(code[1])
        else:
            native = np.array(array, dtype=array.dtype.newbyteorder("="), copy=True, order="C")
            tensor = torch.from_numpy(native)
        return tensor.requires_grad_(requires_grad)

    def snapshot(self, tensor: Any) -> Any:
        with torch.no_grad(), _unseen():
            return tensor.detach().clone()

    # -- dtypes ----------------------------------------------------------------------------------

    def dtype_name(self, obj: object) -> str | None:
        return _NAMES.get(obj) if type(obj) is torch.dtype else None

    def dtype(self, name: str) -> Any:
        return _DTYPES[name]

    # -- modules ---------------------------------------------------------------------------------

    def is_module(self, obj: object) -> bool:
        return isinstance(obj, torch.nn.Module)

    def named_modules(self, module: Any) -> Iterator[tuple[str, Any]]:
        yield from module.named_modules()

    def named_parameters(self, module: Any) -> Iterator[tuple[str, Any]]:
        yield from module.named_parameters()

    def named_buffers(self, module: Any) -> Iterator[tuple[str, Any]]:
        yield from module.named_buffers()

    def assign(self, tensor: Any, array: np.ndarray) -> None:
        value = self.from_numpy(array)
        if tensor.shape != value.shape:  # copy_ would broadcast
            raise ValueError(
                f"a tensor of shape {tuple(tensor.shape)} can't take values of shape {array.shape}"
            )
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            tensor.copy_(value)

    # -- state -----------------------------------------------------------------------------------

    def rng_state(self) -> Any:
        cpu = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            return cpu, torch.cuda.get_rng_state().numpy().tobytes()
        return (cpu,)

    def set_rng_state(self, state: Any) -> None:
        cpu, *cuda = (torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in state)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state(cuda[0])

    def seed(self, value: int) -> None:
        torch.manual_seed(value)

    def no_grad(self) -> AbstractContextManager[Any]:
        return torch.no_grad()

    @contextmanager
    def unfused(self) -> Iterator[None]:
        before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(before)

    # -- calls -----------------------------------------------------------------------------------

    def resolve(self, api: str) -> Callable[..., Any]:
        from optrace.frameworks import torch_targets

        return torch_targets.resolve(api)

    def targets(self) -> Iterator[Target]:
        from optrace.frameworks import torch_targets

        return torch_targets.targets()

    def module_call(self) -> tuple[type, str]:
        return torch.nn.Module, "__call__"

    def net(self, observer: Any, originals: dict[int, Callable[..., Any]]) -> Net:
        from optrace.frameworks.torch_net import TorchNet

        return TorchNet(observer, originals)

    def regions(self) -> Iterator[Region]:
        return torch_regions.regions()

    def late_modules(self) -> tuple[str, ...]:
        return torch_regions.LATE_MODULES

    def compiled(self, result: Any) -> Region | None:
        return torch_regions.compiled(result)

    def hidden(self, module: Any) -> str | None:
        return torch_regions.hidden(module)

    def is_static(self) -> bool:
        return False

    def recomputing(self) -> bool:
        return torch.is_grad_enabled() and torch._C._current_graph_task_id() != -1

    def optimizer_hooks(
        self, before: Callable[[Any], None], after: Callable[[Any], None]
    ) -> Callable[[], None]:
        def ahead(optimizer: Any, args: Any, kwargs: Any) -> None:
            before(optimizer)

        def behind(optimizer: Any, args: Any, kwargs: Any) -> None:
            after(optimizer)

        handles = [register_optimizer_step_pre_hook(ahead), register_optimizer_step_post_hook(behind)]

        def undo() -> None:
            while handles:
                handles.pop().remove()

        return undo


@contextmanager
def _unseen() -> Iterator[None]:
    """Within it, no subclass and no mode of the program sees what is computed."""
    with _aside():
        if torch._C._len_torch_dispatch_stack():
            with _disable_current_modes():
                yield
        else:
            yield


def _nested_shape(tensor: Any) -> tuple[int, ...]:
    """The shape of the padded tensor that ``to_numpy`` gives."""
    sizes = [tuple(part.shape) for part in tensor.detach().unbind()]
    return (len(sizes), *(max(dims) for dims in zip(*sizes)))


def _dense(tensor: Any) -> Any:
    """A strided CPU tensor of the same values that numpy can read.

    Raises ``TypeError`` for meta, fake and batched tensors, which have no values.
    """
    if tensor.device.type == "meta" or isinstance(tensor, _UNREADABLE) or _is_wrapped(tensor):
        raise TypeError(f"a {type(tensor).__name__} on {tensor.device} has no readable values")
    plain = tensor.detach()
    if plain.is_nested:
        plain = torch.nested.to_padded_tensor(plain, 0.0)
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout is not _strided:
        plain = plain.to_dense()
    return plain.cpu().resolve_conj().resolve_neg()


def adapter() -> Framework:
    """The adapter of the imported torch."""
    return TorchFramework()
