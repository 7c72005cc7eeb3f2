"""Forms of argument values: how two ways of writing the same are made equal.

A form turns a value into a normal one or says ``UNKNOWN``, and an unknown value is never compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optrace.trace.records import DtypeRef, TensorRef

if TYPE_CHECKING:
    from optrace.ops.reading import Side
    from optrace.ops.schema import Row


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()

# The form of a parameter, when the row does not name one.
BY_NAME: dict[str, str] = {
    **dict.fromkeys(("dim", "axis", "dims", "axes"), "axis"),
    **dict.fromkeys(("kernel_size", "dilation", "dilations", "output_padding"), "spatial"),
    **dict.fromkeys(("stride", "strides"), "stride"),
    **dict.fromkeys(("padding", "paddings"), "padding"),
    **dict.fromkeys(("normalized_shape", "size", "shape", "output_size"), "sizes"),
    "dtype": "dtype",
    **dict.fromkeys(
        (
            "out name inplace memory_format layout device requires_grad pin_memory generator place async_op "
            "data_format stop_gradient non_blocking copy stable sorted transpose_x transpose_y blocking "
            "seed fix_seed cudnn_enabled use_cudnn padding_algorithm return_mask return_softmax "
            "fixed_seed_offset rng_name broadcast".split()
        ),
        "ignore",
    ),
}


NOT_TENSORS = frozenset(("axis", "dtype", "spatial", "stride", "padding", "flag", "word"))


def form_of(row: Row, name: str) -> str:
    return row.forms.get(name) or BY_NAME.get(name, "plain")


def suits(form: str, value: Any) -> bool:
    """Whether a value can be meant for a parameter of this form; tells overloads apart."""
    if form in NOT_TENSORS and _is_tensor(value):
        return False
    if form == "axis":
        return not isinstance(value, (bool, DtypeRef))
    if form == "number":
        return not isinstance(value, (str, bool, DtypeRef, TensorRef)) and not _is_tensor(value)
    if form == "flag":
        return isinstance(value, (bool, int)) or value is None
    if form == "dtype":
        return not isinstance(value, (bool, int, float, list, tuple))
    if form == "word":
        return isinstance(value, str) or value is None
    if form == "tensor":
        return _is_tensor(value) or value is None
    if form == "tensors":
        return isinstance(value, (list, tuple))
    return True


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorRef) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def plain(value: Any, side: Side | None = None, name: str = "") -> Any:
    """Numbers, strings, ``None`` and containers of them; a dtype by its shared name."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if isinstance(value, (list, tuple)):
        items = tuple(plain(v) for v in value)
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(value, DtypeRef):
        return value.name
    return UNKNOWN


def dtype(value: Any, side: Side, name: str) -> Any:
    """The shared dtype name; a dtype left out follows the inputs and is not comparable."""
    if isinstance(value, DtypeRef):
        return value.name
    if isinstance(value, str):
        return value.removeprefix("torch.").removeprefix("paddle.")
    return UNKNOWN


def axis(value: Any, side: Side, name: str) -> Any:
    """A sorted tuple of axes counted from the front; ``None`` for all of them."""
    if value is None:
        return None
    listed = value if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in listed):
        return UNKNOWN
    shape = side.input_shape
    if not listed:
        return None
    if shape is None:
        return UNKNOWN if any(v < 0 for v in listed) else tuple(sorted(listed))
    found = tuple(sorted(v + len(shape) if v < 0 else v for v in listed))
    return None if isinstance(value, (list, tuple)) and found == tuple(range(len(shape))) else found


def new_axis(value: Any, side: Side, name: str) -> Any:
    """An axis that the result has and the input has not (``unsqueeze``, ``stack``)."""
    if isinstance(value, int) and value < 0:
        shape = side.input_shape
        return UNKNOWN if shape is None else value + len(shape) + 1
    return value if isinstance(value, int) else plain(value)


def spatial(value: Any, side: Side, name: str) -> Any:
    """One number when all axes share it."""
    if isinstance(value, (list, tuple)) and value:
        items = plain(value)
        return items[0] if items is not UNKNOWN and all(v == items[0] for v in items) else items
    return None if isinstance(value, (list, tuple)) else plain(value)


def stride(value: Any, side: Side, name: str) -> Any:
    """As ``spatial``; pooling without a stride takes the kernel's size."""
    found = spatial(value, side, name)
    if found is None and "kernel_size" in side.args:
        return spatial(side.args["kernel_size"], side, "kernel_size")
    return found


def padding(value: Any, side: Side, name: str) -> Any:
    """``"same"``, ``"valid"``, a number, or a pair for each spatial axis."""
    if isinstance(value, str):
        return value.lower()
    flat = plain(value)
    if flat is UNKNOWN or isinstance(flat, int):
        return flat
    if not isinstance(flat, tuple):
        return UNKNOWN
    shape = side.input_shape
    rank = len(shape) - 2 if shape is not None else None
    pairs = _pairs(flat, rank, side.framework)
    if pairs is None:
        return UNKNOWN
    numbers = {n for pair in pairs for n in pair}
    return numbers.pop() if len(numbers) == 1 else pairs


def _pairs(flat: tuple[Any, ...], rank: int | None, framework: str) -> tuple[tuple[int, int], ...] | None:
    if not flat:
        return None
    if all(isinstance(v, tuple) and len(v) == 2 for v in flat):
        # paddle writes a pair for each axis, batch and channel included, which are never padded
        inner = (
            tuple(v for v in flat if v != (0, 0))
            if rank is None
            else tuple(flat[1:-1] if flat[1] != (0, 0) else flat[2:])
        )
        return inner or ((0, 0),)
    if not all(isinstance(v, int) for v in flat):
        return None
    if len(set(flat)) == 1:
        return ((flat[0], flat[0]),)
    if rank is not None and len(flat) == 2 * rank and framework == "paddle":
        return tuple((flat[2 * i], flat[2 * i + 1]) for i in range(rank))
    if rank is None or len(flat) == rank:
        return tuple((v, v) for v in flat)
    return None


def sizes(value: Any, side: Side, name: str) -> Any:
    """A tuple of numbers."""
    found = plain(value)
    if found == ():
        return None
    return (found,) if isinstance(found, int) and not isinstance(found, bool) else found


def ignore(value: Any, side: Side, name: str) -> Any:
    return UNKNOWN


FORMS: Mapping[str, Callable[[Any, Any, str], Any]] = {
    "plain": plain,
    "number": plain,
    "flag": plain,
    "word": plain,
    "tensor": plain,
    "tensors": plain,
    "dtype": dtype,
    "axis": axis,
    "new_axis": new_axis,
    "spatial": spatial,
    "stride": stride,
    "padding": padding,
    "sizes": sizes,
    "ignore": ignore,
}


def equal(a: Any, b: Any) -> bool:
    """Equal normal values: numbers up to float32's rounding, containers item by item."""
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a is b or (isinstance(a, str) and a == b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, (int, float, complex)) and isinstance(b, (int, float, complex)):
        # a float passed through a float32 attribute is still the same argument; NaN is its own equal
        return a == b or abs(a - b) <= 2e-7 * max(abs(a), abs(b)) or (a != a and b != b)
    return bool(a == b)


def written(value: Any, form: str, framework: str) -> Any:
    """A normal value as ``framework`` takes it."""
    if form == "dtype" and isinstance(value, str):
        return DtypeRef(value)
    if form == "padding":
        if isinstance(value, str):
            return value.upper() if framework == "paddle" else value
        if isinstance(value, tuple):
            if framework == "paddle":
                return [n for pair in value for n in pair]
            return [pair[0] for pair in value] if all(p[0] == p[1] for p in value) else UNKNOWN
    if form == "axis" and isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value)
    return list(value) if isinstance(value, tuple) else value


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of a tensor reference or live tensor; that of the first one in a list."""
    if isinstance(value, (list, tuple)) and value:
        return shape_of(value[0])
    found: Sequence[int] | None = getattr(value, "shape", None)
    return None if found is None else tuple(int(n) for n in found)
