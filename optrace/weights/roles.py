"""What part each argument of an operation plays, by the operation's name.

Roles of parameters: ``matrix`` (seen as [in, out]), ``table`` (rows looked up), ``conv``, ``deconv``,
``scale``, ``shift``, ``mean``, ``variance``, ``slope``, ``bilinear``, ``recurrent``, ``token`` (joined
with data) and ``other:<op>``. ``data`` and ``ids`` are not parameters' roles; ``-`` is no tensor.
"""

from __future__ import annotations

from typing import NamedTuple

PARAMETER_ROLES = frozenset("matrix table conv deconv scale shift mean variance slope bilinear".split())
STATISTICS = frozenset({"mean", "variance"})

_NORM = "data - scale shift"
_STATISTICS_FIRST = "data mean variance scale shift"
_BOTH = {
    "linear": "data matrix shift",
    "conv1d": "data conv shift",
    "conv2d": "data conv shift",
    "conv3d": "data conv shift",
    "depthwise_conv2d": "data conv shift",
    "conv_transpose1d": "data deconv shift",
    "conv_transpose2d": "data deconv shift",
    "conv_transpose3d": "data deconv shift",
    "conv1d_transpose": "data deconv shift",
    "conv2d_transpose": "data deconv shift",
    "conv3d_transpose": "data deconv shift",
    "layer_norm": _NORM,
    "rms_norm": "data - scale",
    "batch_norm": _STATISTICS_FIRST,
    "instance_norm": _STATISTICS_FIRST,
    "prelu": "data slope",
    "bilinear": "data data bilinear shift",
    "addmm": "shift data matrix",
}
_TORCH = {
    "embedding": "ids table",
    "embedding_bag": "ids table",
    "group_norm": _NORM,
    "native_layer_norm": _NORM,
}
_PADDLE = {
    "embedding": "ids table",
    "group_norm": "data - - scale shift",
    "fused_rms_norm": "data scale shift",
    "fused_layer_norm": "data scale shift",
}
# Some names take their arguments in another order at another place.
_EXACT = {
    "torch.embedding": "table ids",
    "torch.batch_norm": "data scale shift mean variance",
    "torch.instance_norm": "data scale shift mean variance",
    "paddle._C_ops.layer_norm": "data scale shift",
    "paddle._C_ops.group_norm": "data scale shift",
    "paddle._C_ops.instance_norm": "data scale shift",
    "paddle._C_ops.rms_norm": "data - - scale shift",
}
_KEYWORDS = {
    "bias": "shift",
    "norm_bias": "shift",
    "norm_weight": "scale",
    "scale": "scale",
    "running_mean": "mean",
    "mean": "mean",
    "running_var": "variance",
    "variance": "variance",
    "mat2": "matrix",
}
_WEIGHTS = ("matrix", "table", "conv", "deconv", "scale", "slope", "bilinear")

MATMUL = frozenset({"matmul", "mm", "bmm", "mv", "dot"})
BINARY = {
    "mul": "scale", "multiply": "scale", "addcmul": "scale", "add": "shift", "sub": "minus",
    "subtract": "minus", "div": "divisor", "divide": "divisor", "truediv": "divisor",
    "true_divide": "divisor", "pow": "exponent",
}  # fmt: skip
JOINING = frozenset(
    "cat concat concatenate stack hstack vstack where masked_fill copy setitem set_value scatter lerp".split()
)
INDEXING = frozenset(
    "getitem index_select gather gather_nd take_along_axis index take_along_dim take index_sample".split()
)
RECURRENT = frozenset(
    "lstm gru rnn rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell simplernn".split()
)
# They move, repeat or cast elements and compute nothing.
MOVES = frozenset(
    "reshape view transpose permute t T mT H mH flatten unflatten unsqueeze squeeze expand expand_as "
    "broadcast_to tile repeat split chunk unbind unstack tensor_split getitem select narrow slice "
    "strided_slice movedim moveaxis swapaxes swapdims contiguous clone detach flip roll cast astype "
    "to float half double bfloat16 type type_as cpu cuda data view_as reshape_as matrix_transpose "
    "assign as_strided share_data split_with_num repeat_interleave flatten_contiguous_range "
    "atleast_1d atleast_2d atleast_3d alias diagonal adjoint crop".split()
)
# Moves that keep every element in place.
CASTS = frozenset(
    "contiguous clone detach cast astype to float half double bfloat16 type type_as cpu cuda data "
    "assign share_data alias".split()
)
ORDER = ("table", "matrix", "conv", "deconv", "bilinear", "mean", "variance", "scale", "slope", "shift")


class Spec(NamedTuple):
    """Roles by position, and by keyword for those given that way."""

    positional: tuple[str, ...]

    def of(self, keyword: str) -> str:
        if keyword in ("weight", "weights"):
            return next((r for r in self.positional if r in _WEIGHTS), "data")
        if keyword == "y" and self.positional[-1] == "matrix":
            return "matrix"
        if keyword == "input" and self.positional[0] == "shift":
            return "shift"
        if keyword in ("x", "input") and self.positional[0] == "ids":
            return "ids"
        return _KEYWORDS.get(keyword, "data")


def op_name(api: str) -> str:
    """``"add"`` for ``torch.Tensor.__iadd__``, ``paddle.add_`` and the like; ``rsub`` keeps its letter."""
    name = api.rpartition(".")[2]
    if name.startswith("__"):
        name = name.strip("_")
        if name in ("iadd", "isub", "imul", "itruediv", "idiv", "imatmul", "ipow"):
            name = name[1:]
        if name in ("radd", "rmul"):
            name = name[1:]
    return name.rstrip("_") if not name.startswith("_") else name


def spec(api: str, op: str) -> Spec | None:
    """The roles of the arguments of a known operation."""
    found = _EXACT.get(api) or (_TORCH if api.startswith("torch.") else _PADDLE).get(op) or _BOTH.get(op)
    return Spec(tuple(found.split())) if found else None
