"""What is patched in paddle, and under which public name each callable is known."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import paddle

from optrace.frameworks.base import Target

# In the order of preference for a function's public name.
NAMESPACES = (
    "paddle.nn.functional",
    "paddle",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.incubate.nn.functional",
    "paddle.sparse",
    "paddle.sparse.nn.functional",
)
# Where public tensor functions are defined; what comes from elsewhere (save, seed, summary...) is no op.
HOMES = (
    "paddle.tensor",
    "paddle.nn.functional",
    "paddle.fft",
    "paddle.signal",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.incubate.nn.functional",
    "paddle.incubate.operators",
    "paddle.incubate.tensor",
    "paddle.sparse",
    "paddle.linalg",
    "paddle.framework.random",
    "paddle.base.dygraph.generated_tensor_methods_patch",
)
NOT_OPS = frozenset(
    "is_tensor is_complex is_floating_point is_integer is_empty rank shape numel tolist broadcast_shape broadcast_shapes "
    "in_dynamic_mode set_printoptions get_default_dtype set_default_dtype iinfo finfo seed get_rng_state set_rng_state "
    "get_cuda_rng_state set_cuda_rng_state create_parameter create_global_var fill_constant is_coalesced is_same_shape "
    "check_shape array_length create_array array_read array_write result_type is_grad_enabled "
    "dim ndimension size element_size numpy item get_device register_hook backward clear_grad clear_gradient gradient "
    "value get_tensor apply apply_ data_ptr get_strides get_map_tensor get_selected_rows set_tensor set_vocab "
    "set_string_list is_contiguous is_dense is_dist is_selected_rows is_sparse is_sparse_coo is_sparse_csr nnz stride "
    "retain_grads reconstruct_from_ dense_dim sparse_dim rows requires_grad_ to_static_var create_tensor".split()
)
OPERATORS = frozenset(
    f"__{op}__"
    for op in (
        "add radd iadd sub rsub isub mul rmul imul div rdiv idiv truediv rtruediv itruediv floordiv rfloordiv ifloordiv "
        "mod rmod imod pow rpow ipow matmul rmatmul imatmul eq ne lt le gt ge and rand iand or ror ior xor rxor ixor "
        "lshift rlshift rshift rrshift invert neg pos abs getitem setitem"
    ).split()
)
PROPERTIES = ("T", "mT", "real", "imag")
# These run on _C_ops but neither compute nor draw.
C_NOT_OPS = ("get_", "set_", "eager_", "_", "run_", "pir_run", "nop", "legacy_run")

BACKWARD = {
    "paddle.Tensor.backward": (paddle.Tensor, "backward"),
    "paddle.autograd.backward": (paddle.autograd, "backward"),
    "paddle.grad": (paddle, "grad"),
}


def targets() -> Iterator[Target]:
    """Public functions, tensor methods and operators, the C level, then what starts a backward pass."""
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name, value in vars(module).items():
            if name.startswith("_") or name in NOT_OPS:
                continue
            function = isinstance(value, types.FunctionType) and value.__module__.startswith(HOMES)
            if function or isinstance(value, types.BuiltinFunctionType):
                yield Target(module, name, f"{namespace}.{name}", held=not function)
    for name, value in list(vars(paddle.Tensor).items()):
        if name in NOT_OPS or (name.startswith("_") and name not in OPERATORS):
            continue
        if isinstance(value, (types.FunctionType, types.MethodDescriptorType)) or (
            name in PROPERTIES and isinstance(value, (property, types.GetSetDescriptorType))
        ):
            yield Target(paddle.Tensor, name, f"paddle.Tensor.{name}")
    for name, value in vars(paddle._C_ops).items():
        if isinstance(value, types.BuiltinFunctionType) and not name.startswith(C_NOT_OPS):
            yield Target(paddle._C_ops, name, f"paddle._C_ops.{name}")
    yield from _early_bound()
    for api, (owner, attribute) in BACKWARD.items():
        yield Target(owner, attribute, api)


def _early_bound() -> Iterator[Target]:
    """Where other modules hold a C function under a name of their own (``from paddle import matmul``)."""
    level = {id(v): n for n, v in vars(paddle._C_ops).items() if isinstance(v, types.BuiltinFunctionType)}
    listed = {*NAMESPACES, "paddle._C_ops"}
    for module_name, module in list(sys.modules.items()):
        if module_name in listed or module_name.startswith(("paddle.base.libpaddle", "paddle._C_ops")):
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in level:
                short = level[id(value)]
                public = getattr(paddle, short, None) is value
                yield Target(module, name, f"paddle.{short}" if public else f"paddle._C_ops.{short}")


def resolve(api: str) -> Callable[..., Any]:
    """The callable behind a dotted paddle name."""
    obj: Any = paddle
    for part in api.split(".")[1:]:
        obj = getattr(obj, part)
    if isinstance(obj, (property, types.GetSetDescriptorType)):
        return lambda tensor: getattr(tensor, api.rpartition(".")[2])
    return obj  # type: ignore[no-any-return]
