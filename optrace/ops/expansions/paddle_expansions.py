"""Fused paddle calls written out in elementary public ones; see ``torch_expansions``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def gelu(x: Any, approximate: bool | str = False) -> Any:
    import paddle

    if approximate in (True, "tanh"):
        inner = paddle.add(x, paddle.scale(paddle.pow(x, 3), 0.044715))
        gate = paddle.tanh(paddle.scale(inner, math.sqrt(2 / math.pi)))
    else:
        gate = paddle.erf(paddle.scale(x, 1 / math.sqrt(2.0)))
    return paddle.multiply(paddle.scale(x, 0.5), paddle.scale(gate, 1.0, 1.0))


def silu(x: Any) -> Any:
    import paddle

    return paddle.multiply(x, paddle.nn.functional.sigmoid(x))


def mish(x: Any) -> Any:
    import paddle

    return paddle.multiply(x, paddle.tanh(paddle.log1p(paddle.exp(x))))


def glu(x: Any, axis: int = -1) -> Any:
    import paddle

    a, b = paddle.chunk(x, 2, axis)
    return paddle.multiply(a, paddle.nn.functional.sigmoid(b))


def swiglu(x: Any, y: Any = None) -> Any:
    import paddle

    a, b = paddle.chunk(x, 2, -1) if y is None else (x, y)
    return paddle.multiply(silu(a), b)


def softmax(x: Any, axis: int = -1, dtype: Any = None) -> Any:
    import paddle

    x = x if dtype is None else paddle.cast(x, dtype)
    e = paddle.exp(paddle.subtract(x, paddle.max(x, axis, True)))
    return paddle.divide(e, paddle.sum(e, axis, keepdim=True))


def log_softmax(x: Any, axis: int = -1, dtype: Any = None) -> Any:
    import paddle

    x = x if dtype is None else paddle.cast(x, dtype)
    shifted = paddle.subtract(x, paddle.max(x, axis, True))
    return paddle.subtract(shifted, paddle.log(paddle.sum(paddle.exp(shifted), axis, keepdim=True)))


def dropout(
    x: Any,
    p: float = 0.5,
    axis: Any = None,
    training: bool = True,
    inplace: bool = False,
    mode: str = "upscale_in_train",
) -> Any:
    import paddle

    if not training:
        return paddle.scale(x, 1 - p) if mode == "downscale_in_infer" else x
    if p == 0:
        return x
    axes = None if axis is None else ([axis] if isinstance(axis, int) else list(axis))
    shape = x.shape if axes is None else [n if i in axes else 1 for i, n in enumerate(x.shape)]
    kept = paddle.multiply(x, paddle.bernoulli(paddle.full(shape, 1 - p, x.dtype)))
    return paddle.scale(kept, 1 / (1 - p)) if mode == "upscale_in_train" else kept


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    import paddle

    out = paddle.matmul(x, weight)
    return out if bias is None else paddle.add(out, bias)


def addmm(input: Any, x: Any, y: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    import paddle

    return paddle.add(_times(input, beta), _times(paddle.matmul(x, y), alpha))


def baddbmm(input: Any, x: Any, y: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    import paddle

    return paddle.add(_times(input, beta), _times(paddle.bmm(x, y), alpha))


def _times(x: Any, factor: float) -> Any:
    import paddle

    return x if factor == 1 else paddle.scale(x, factor)


def sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    backend: Any = None,
    scale: float | None = None,
    enable_gqa: bool = True,
) -> Any:
    """[batch, seq, heads, dim]; a boolean mask keeps where it is True."""
    import paddle

    q, k, v = (paddle.transpose(t, [0, 2, 1, 3]) for t in (query, key, value))
    if k.shape[1] != q.shape[1]:
        k = paddle.repeat_interleave(k, q.shape[1] // k.shape[1], 1)
        v = paddle.repeat_interleave(v, q.shape[1] // v.shape[1], 1)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = paddle.scale(paddle.matmul(q, paddle.transpose(k, [0, 1, 3, 2])), factor)
    if is_causal:
        keep = paddle.tril(paddle.ones([q.shape[2], k.shape[2]], "bool"))
        scores = paddle.masked_fill(scores, paddle.logical_not(keep), -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype == paddle.bool:
            scores = paddle.masked_fill(scores, paddle.logical_not(attn_mask), -math.inf)
        else:
            scores = paddle.add(scores, attn_mask)
    weights = paddle.nn.functional.softmax(scores, -1)
    if dropout_p and training:
        weights = paddle.nn.functional.dropout(weights, dropout_p)
    return paddle.transpose(paddle.matmul(weights, v), [0, 2, 1, 3])


def flash_attention(
    query: Any,
    key: Any,
    value: Any,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    fixed_seed_offset: Any = None,
    rng_name: str = "",
    training: bool = True,
) -> Any:
    return sdpa(query, key, value, None, dropout, causal, training), None


def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, epsilon: float = 1e-5
) -> Any:
    import paddle

    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    out = _standardized(x, list(range(-len(shape), 0)), epsilon)
    # paddle keeps weight and bias flat
    weight, bias = (None if t is None else paddle.reshape(t, shape) for t in (weight, bias))
    return _affine(out, weight, bias)


def rms_norm(input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float = 1e-5) -> Any:
    import paddle

    rank = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    mean = paddle.mean(paddle.square(input), list(range(-rank, 0)), True)
    return _affine(paddle.multiply(input, paddle.rsqrt(paddle.scale(mean, 1.0, eps))), weight, None)


def fused_rms_norm(
    x: Any, norm_weight: Any, norm_bias: Any, epsilon: float, begin_norm_axis: int, *rest: Any, **more: Any
) -> Any:
    out = rms_norm(x, x.shape[begin_norm_axis:], norm_weight, epsilon)
    return (_affine(out, None, norm_bias),)


def group_norm(
    x: Any,
    num_groups: int,
    epsilon: float = 1e-5,
    weight: Any = None,
    bias: Any = None,
    data_format: str = "NCHW",
) -> Any:
    import paddle

    x, back = _channels_first(x, data_format)
    grouped = paddle.reshape(x, [x.shape[0], num_groups, -1])
    out = paddle.reshape(_standardized(grouped, [-1], epsilon), x.shape)
    return _restored(_affine(out, _channels(weight, x), _channels(bias, x)), back)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Any:
    import paddle

    x, back = _channels_first(x, data_format)
    if training and not use_global_stats:
        out = _standardized(x, [i for i in range(x.ndim) if i != 1], epsilon)
    else:
        centred = paddle.subtract(x, _channels(running_mean, x))
        out = paddle.multiply(centred, paddle.rsqrt(paddle.scale(_channels(running_var, x), 1.0, epsilon)))
    return _restored(_affine(out, _channels(weight, x), _channels(bias, x)), back)


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-5,
    data_format: str = "NCHW",
) -> Any:
    x, back = _channels_first(x, data_format)
    out = _standardized(x, list(range(2, x.ndim)), eps)
    return _restored(_affine(out, _channels(weight, x), _channels(bias, x)), back)


def _standardized(x: Any, axes: list[int], epsilon: float) -> Any:
    import paddle

    centred = paddle.subtract(x, paddle.mean(x, axes, True))
    variance = paddle.mean(paddle.square(centred), axes, True)
    return paddle.multiply(centred, paddle.rsqrt(paddle.scale(variance, 1.0, epsilon)))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    import paddle

    out = x if weight is None else paddle.multiply(x, weight)
    return out if bias is None else paddle.add(out, bias)


def _channels(x: Any, like: Any) -> Any:
    """A value for each channel, shaped to stand beside ``like``."""
    import paddle

    return None if x is None else paddle.reshape(x, [1, -1] + [1] * (like.ndim - 2))


def _channels_first(x: Any, data_format: str) -> tuple[Any, list[int] | None]:
    """``x`` with channels at axis 1, and the order that undoes it."""
    import paddle

    if not data_format.endswith("C") or x.ndim < 3:
        return x, None
    axes = list(range(1, x.ndim - 1))
    return paddle.transpose(x, [0, x.ndim - 1, *axes]), [0, *(a + 1 for a in axes), 1]


def _restored(x: Any, order: list[int] | None) -> Any:
    import paddle

    return x if order is None else paddle.transpose(x, order)


def normalize(x: Any, p: float = 2, axis: int = 1, epsilon: float = 1e-12, out: Any = None) -> Any:
    import paddle

    size = paddle.pow(paddle.sum(paddle.pow(paddle.abs(x), p), axis, keepdim=True), 1 / p)
    return paddle.divide(x, paddle.maximum(size, paddle.full([1], epsilon, x.dtype)))


def cross_entropy(
    input: Any,
    label: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
) -> Any:
    """The mean divides by all rows when ``ignore_index`` is negative, as paddle's does."""
    import paddle

    logits = paddle.nn.functional.log_softmax(input, axis) if use_softmax else paddle.log(input)
    classes = input.shape[axis]
    if not soft_label:
        hard = paddle.squeeze(label, axis) if label.ndim == input.ndim else label
        kept = paddle.not_equal(hard, paddle.full([], ignore_index, hard.dtype))
        safe = paddle.where(kept, hard, paddle.zeros_like(hard))
    if soft_label or label_smoothing:
        target = label if soft_label else paddle.nn.functional.one_hot(safe, classes)
        target = paddle.cast(target, logits.dtype)
        if not soft_label and axis not in (-1, input.ndim - 1):
            target = paddle.moveaxis(target, -1, axis)
        if label_smoothing:
            target = paddle.scale(target, 1 - label_smoothing, label_smoothing / classes)
        loss = paddle.scale(paddle.sum(paddle.multiply(target, logits), axis), -1.0)
        share = None if weight is None else paddle.sum(paddle.multiply(target, weight), axis)
    else:
        picked = paddle.take_along_axis(logits, paddle.unsqueeze(safe, axis), axis, broadcast=False)
        loss = paddle.scale(paddle.squeeze(picked, axis), -1.0)
        share = (
            None
            if weight is None
            else paddle.reshape(paddle.gather(weight, paddle.flatten(safe)), safe.shape)
        )
    if share is not None:
        loss = paddle.multiply(loss, share)
    if not soft_label:
        zero = paddle.zeros_like(loss)
        loss = paddle.where(kept, loss, zero)
        share = None if share is None else paddle.where(kept, share, zero)
    if reduction == "none":
        # paddle keeps the axis of the classes
        return paddle.unsqueeze(loss, axis) if soft_label or label.ndim == input.ndim else loss
    total = paddle.sum(loss)
    if reduction == "sum":
        return total
    if share is not None:
        return paddle.divide(total, paddle.sum(share))
    if not soft_label and ignore_index >= 0:
        return paddle.divide(total, paddle.sum(paddle.cast(kept, total.dtype)))
    return paddle.scale(total, 1 / max(loss.size, 1))


def simple_cell(x: Any, state: Any, activation: str, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    import paddle

    act = paddle.tanh if activation == "tanh" else paddle.nn.functional.relu
    return act(paddle.add(_gates(x, w_ih, b_ih), _gates(state, w_hh, b_hh)))


def lstm_cell(x: Any, state: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    import paddle

    hidden, cell = state
    i, f, g, o = paddle.chunk(paddle.add(_gates(x, w_ih, b_ih), _gates(hidden, w_hh, b_hh)), 4, -1)
    sigmoid = paddle.nn.functional.sigmoid
    kept = paddle.multiply(sigmoid(f), cell)
    cell = paddle.add(kept, paddle.multiply(sigmoid(i), paddle.tanh(g)))
    return paddle.multiply(sigmoid(o), paddle.tanh(cell)), cell


def gru_cell(x: Any, state: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    import paddle

    r_in, z_in, n_in = paddle.chunk(_gates(x, w_ih, b_ih), 3, -1)
    r_hid, z_hid, n_hid = paddle.chunk(_gates(state, w_hh, b_hh), 3, -1)
    sigmoid = paddle.nn.functional.sigmoid
    reset, update = sigmoid(paddle.add(r_in, r_hid)), sigmoid(paddle.add(z_in, z_hid))
    new = paddle.tanh(paddle.add(n_in, paddle.multiply(reset, n_hid)))
    return paddle.add(paddle.multiply(update, paddle.subtract(state, new)), new)


def _gates(x: Any, weight: Any, bias: Any) -> Any:
    import paddle

    out = paddle.matmul(x, weight, transpose_y=True)
    return out if bias is None else paddle.add(out, bias)


def rnn(
    x: Any,
    pre_state: Sequence[Any],
    weight_list: Sequence[Any],
    sequence_length: Any,
    dropout_state_in: Any,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    input_size: int = 10,
    hidden_size: int = 100,
    num_layers: int = 1,
    mode: str = "RNN_TANH",
    seed: int = 0,
    is_test: bool = False,
) -> Any:
    """Steps on axis 0. Raises ``NotImplementedError`` for sequences of different lengths."""
    import paddle

    if sequence_length is not None:
        raise NotImplementedError("sequences of different lengths")
    directions = 2 if is_bidirec else 1
    biases = weight_list[2 * num_layers * directions :]
    states = [paddle.unbind(s, 0) for s in pre_state]
    steps = paddle.unbind(x, 0)
    finals = []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            place = layer * directions + direction
            weights: list[Any] = [
                *weight_list[2 * place : 2 * place + 2],
                *(biases[2 * place : 2 * place + 2] or (None, None)),
            ]
            state: Any = (states[0][place], states[1][place]) if mode == "LSTM" else states[0][place]
            made = []
            for step in reversed(steps) if direction else steps:
                if mode == "LSTM":
                    state = lstm_cell(step, state, *weights)
                elif mode == "GRU":
                    state = gru_cell(step, state, *weights)
                else:
                    activation = "tanh" if mode == "RNN_TANH" else "relu"
                    state = simple_cell(step, state, activation, *weights)
                made.append(state[0] if mode == "LSTM" else state)
            outs.append(made[::-1] if direction else made)
            finals.append(state)
        steps = [paddle.concat(pair, -1) for pair in zip(*outs)] if is_bidirec else outs[0]
        if dropout_prob and not is_test and layer < num_layers - 1:
            steps = paddle.unbind(paddle.nn.functional.dropout(paddle.stack(steps), dropout_prob), 0)
    parts = list(zip(*finals)) if mode == "LSTM" else [finals]
    return paddle.stack(list(steps)), dropout_state_in, [paddle.stack(list(p)) for p in parts]
