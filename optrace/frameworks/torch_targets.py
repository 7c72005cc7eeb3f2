"""What is patched in torch, and under which public name each callable is known."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import get_overridable_functions

from optrace.frameworks.base import Target

# In the order of preference for a function's public name: the later ones only label what is left.
NAMESPACES = ("torch.nn.functional", "torch", "torch.linalg", "torch.fft", "torch.special", "torch.nn.init")

# Not listed as overridable (no tensor argument), yet they make tensors.
CREATION = frozenset(
    "arange as_tensor asarray bartlett_window blackman_window empty empty_strided eye frombuffer from_numpy full "
    "hamming_window hann_window kaiser_window linspace logspace normal ones rand rand_like randint randint_like randn "
    "randn_like randperm range scalar_tensor sparse_coo_tensor sparse_csr_tensor tensor tril_indices triu_indices "
    "vander zeros fftfreq rfftfreq complex polar".split()
)

# Public functionals that ask no tensor whether it has an implementation of its own, so not listed either.
FUNCTIONAL = frozenset(
    "tanh sigmoid hardsigmoid hardswish upsample upsample_nearest upsample_bilinear grouped_mm scaled_mm "
    "scaled_grouped_mm".split()
)

# No mode is told of these: they take no tensor and make one from foreign memory.
UNSEEN = frozenset({"torch.from_numpy", "torch.frombuffer", "torch.range"})

# They read metadata, leave the tensor world, or manage it; none computes a tensor.
NOT_OPS = frozenset(
    "size dim ndimension numel nelement stride storage_offset is_contiguous is_floating_point is_complex is_signed "
    "is_set_to is_shared is_pinned is_inference is_conj is_neg is_coalesced is_same_size is_tensor is_storage "
    "is_nonzero data_ptr storage untyped_storage storage_type element_size get_device type_as_dtype item tolist numpy "
    "register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ share_memory_ pin_memory has_names "
    "names refine_names align_to rename rename_ set_ names dense_dim sparse_dim result_type can_cast promote_types "
    "get_default_dtype typename broadcast_shapes is_autocast_enabled backward reinforce module_load dim_order "
    "is_vulkan_available is_distributed is_deterministic numel_ apply_ map_ map2_ has_torch_function isinstance "
    "resolve_name vmap compile cond while_loop block_diag_shape get_rng_state set_rng_state device".split()
)
NOT_OP_DUNDERS = frozenset(
    "__repr__ __str__ __format__ __hash__ __len__ __dir__ __bool__ __int__ __float__ __complex__ __index__ __nonzero__ "
    "__long__ __array__ __array_wrap__ __array_priority__ __cuda_array_interface__ __dlpack__ __dlpack_device__ "
    "__deepcopy__ __reduce_ex__ __reduce__ __setstate__ __getstate__ __new__ __init__ __class__ __getattribute__ "
    "__setattr__ __delattr__ __subclasshook__ __init_subclass__ __sizeof__ __torch_function__ __torch_dispatch__ "
    "__cuda_array_interface__ __dict__ __doc__ __module__ __weakref__ __contains__ __iter__ __reversed__ "
    # Setting this one breaks torch.tensor([0-d tensor]) for the rest of the process; the mode sees it instead.
    "__getitem__".split()
)
# Attribute reads that move or reinterpret data, seen by the mode as ``descriptor.__get__``.
VIEW_PROPERTIES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})

BACKWARD = {
    "torch.Tensor.backward": (torch.Tensor, "backward"),
    "torch.autograd.backward": (torch.autograd, "backward"),
    "torch.autograd.grad": (torch.autograd, "grad"),
}


def _public() -> Iterator[Target]:
    """Public functions and builtins, the preferred name of each first."""
    overridable = {id(f) for functions in get_overridable_functions().values() for f in functions}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name, value in vars(module).items():
            if name.startswith("_") or name in NOT_OPS or not callable(value) or isinstance(value, type):
                continue
            if namespace == "torch.nn.init":
                wanted = name.endswith("_") and isinstance(value, types.FunctionType)
            else:
                # A program may have put back a wrapper it took during an earlier trace, as a mock does.
                known = id(value) in overridable or id(getattr(value, "__wrapped__", None)) in overridable
                listed = FUNCTIONAL if namespace == "torch.nn.functional" else CREATION
                wanted = known or name in listed
            if wanted:
                yield Target(module, name, f"{namespace}.{name}")


def builtin_names() -> dict[Any, str]:
    """The public name of each builtin that a ``TorchFunctionMode`` sees."""
    names: dict[Any, str] = {}
    for owner, attribute, api, _ in _public():
        value = getattr(owner, attribute)
        if isinstance(value, types.BuiltinFunctionType):
            names.setdefault(value, api)
    return names


def targets() -> Iterator[Target]:
    """Public Python functions, tensor methods and operators, then what starts a backward pass.

    Of the builtins only those that a ``TorchFunctionMode`` does not see.
    """
    for target in _public():
        if isinstance(getattr(target.owner, target.attribute), types.FunctionType) or target.api in UNSEEN:
            yield target
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name, None)
        if not callable(value) or isinstance(value, type) or name in NOT_OPS or name in NOT_OP_DUNDERS:
            continue
        if name.startswith("_") and not name.startswith("__"):
            continue
        if name.startswith("is_") and name not in ("is_nonzero",):
            continue
        if isinstance(value, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            yield Target(torch.Tensor, name, f"torch.Tensor.{name}")
    for api, (owner, attribute) in BACKWARD.items():
        yield Target(owner, attribute, api)


def resolve(api: str) -> Callable[..., Any]:
    """The callable behind a dotted torch name."""
    obj: Any = torch
    for part in api.split(".")[1:]:
        obj = getattr(obj, part)
    if isinstance(obj, types.GetSetDescriptorType):
        return lambda tensor: getattr(tensor, api.rpartition(".")[2])
    return obj  # type: ignore[no-any-return]
