"""Fused torch calls written out in elementary public ones.

Each takes the canonical arguments of its row and returns what the fused call returns. Calls go
through ``torch``'s public names at call time, so that they are recorded when a trace is running.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def gelu(input: Any, approximate: str = "none") -> Any:
    import torch

    if approximate == "tanh":
        inner = torch.mul(torch.add(input, torch.mul(torch.pow(input, 3), 0.044715)), math.sqrt(2 / math.pi))
        return torch.mul(torch.mul(input, 0.5), torch.add(torch.tanh(inner), 1.0))
    return torch.mul(torch.mul(input, 0.5), torch.add(torch.erf(torch.div(input, math.sqrt(2.0))), 1.0))


def silu(input: Any, inplace: bool = False) -> Any:
    import torch

    return torch.mul(input, torch.sigmoid(input))


def mish(input: Any, inplace: bool = False) -> Any:
    import torch

    return torch.mul(input, torch.tanh(torch.log1p(torch.exp(input))))


def glu(input: Any, dim: int = -1) -> Any:
    import torch

    a, b = torch.chunk(input, 2, dim)
    return torch.mul(a, torch.sigmoid(b))


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    import torch

    x = input if dtype is None else input.to(dtype)
    axis = (0 if x.dim() in (0, 1, 3) else 1) if dim is None else dim
    e = torch.exp(torch.sub(x, torch.amax(x, axis, True)))
    return torch.div(e, torch.sum(e, axis, True))


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    import torch

    x = input if dtype is None else input.to(dtype)
    axis = (0 if x.dim() in (0, 1, 3) else 1) if dim is None else dim
    shifted = torch.sub(x, torch.amax(x, axis, True))
    return torch.sub(shifted, torch.log(torch.sum(torch.exp(shifted), axis, True)))


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    import torch

    if not training or p == 0:
        return input
    return torch.div(torch.mul(input, torch.bernoulli(torch.full_like(input, 1 - p))), 1 - p)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    import torch

    out = torch.matmul(input, torch.transpose(weight, 0, 1))
    return out if bias is None else torch.add(out, bias)


def addmm(input: Any, mat1: Any, mat2: Any, beta: float = 1, alpha: float = 1) -> Any:
    import torch

    product = torch.matmul(mat1, mat2)
    return torch.add(_times(input, beta), _times(product, alpha))


def baddbmm(input: Any, batch1: Any, batch2: Any, beta: float = 1, alpha: float = 1) -> Any:
    import torch

    product = torch.bmm(batch1, batch2)
    return torch.add(_times(input, beta), _times(product, alpha))


def _times(x: Any, factor: float) -> Any:
    import torch

    return x if factor == 1 else torch.mul(x, factor)


def sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    import torch

    if enable_gqa:
        key = torch.repeat_interleave(key, query.size(-3) // key.size(-3), -3)
        value = torch.repeat_interleave(value, query.size(-3) // value.size(-3), -3)
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = torch.mul(torch.matmul(query, torch.transpose(key, -2, -1)), factor)
    if is_causal:
        keep = torch.tril(torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device))
        scores = torch.masked_fill(scores, torch.logical_not(keep), -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = torch.masked_fill(scores, torch.logical_not(attn_mask), -math.inf)
        else:
            scores = torch.add(scores, attn_mask)
    weights = torch.nn.functional.softmax(scores, -1)
    if dropout_p:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return torch.matmul(weights, value)


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Inputs are [seq, batch, dim]. Raises ``NotImplementedError`` for appended keys."""
    import torch
    from torch.nn.functional import linear as project

    if (
        bias_k is not None
        or bias_v is not None
        or add_zero_attn
        or static_k is not None
        or static_v is not None
    ):
        raise NotImplementedError("appended or static keys and values")
    batched = query.dim() == 3
    if not batched:
        query, key, value = (torch.unsqueeze(t, 1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else torch.unsqueeze(key_padding_mask, 0)
    if use_separate_proj_weight:
        weights = [q_proj_weight, k_proj_weight, v_proj_weight]
    else:
        weights = list(torch.chunk(in_proj_weight, 3, 0))
    biases = [None] * 3 if in_proj_bias is None else list(torch.chunk(in_proj_bias, 3, 0))
    q, k, v = (_heads(project(t, w, b), num_heads) for t, w, b in zip((query, key, value), weights, biases))
    mask = _mask(attn_mask, q)
    if key_padding_mask is not None:
        hidden = _mask(key_padding_mask, q)[:, None, None, :]
        mask = hidden if mask is None else torch.add(mask, hidden)
    scores = torch.mul(torch.matmul(q, torch.transpose(k, -2, -1)), 1 / math.sqrt(q.size(-1)))
    if mask is not None:
        scores = torch.add(scores, mask)
    attention = torch.nn.functional.softmax(scores, -1)
    if training and dropout_p:
        attention = torch.nn.functional.dropout(attention, dropout_p)
    mixed = torch.matmul(attention, v)
    out = project(torch.flatten(torch.permute(mixed, (2, 0, 1, 3)), 2), out_proj_weight, out_proj_bias)
    shown = None
    if need_weights:
        shown = torch.mean(attention, 1) if average_attn_weights else attention
    if not batched:
        return torch.squeeze(out, 1), None if shown is None else torch.squeeze(shown, 0)
    return out, shown


def _heads(x: Any, heads: int) -> Any:
    """[seq, batch, dim] to [batch, heads, seq, dim / heads]."""
    import torch

    split = torch.reshape(x, (x.size(0), x.size(1), heads, x.size(2) // heads))
    return torch.permute(split, (1, 2, 0, 3))


def _mask(mask: Any, like: Any) -> Any:
    """A mask to add: True hides. One mask for each head comes as [batch * heads, ...]."""
    import torch

    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.masked_fill(
            torch.zeros(mask.shape, dtype=like.dtype, device=like.device), mask, -math.inf
        )
    if mask.dim() == 3:
        mask = torch.reshape(mask, (like.size(0), -1, mask.size(1), mask.size(2)))
    return mask


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    rank = len(normalized_shape) if isinstance(normalized_shape, Sequence) else 1
    return _affine(_standardized(input, tuple(range(-rank, 0)), eps), weight, bias)


def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    import torch

    axes = tuple(range(-len(normalized_shape), 0))
    small = torch.finfo(input.dtype).eps if eps is None else eps
    root = torch.rsqrt(torch.add(torch.mean(torch.pow(input, 2), axes, True), small))
    return _affine(torch.mul(input, root), weight, None)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    import torch

    grouped = torch.reshape(input, (input.size(0), num_groups, -1))
    out = torch.reshape(_standardized(grouped, (-1,), eps), input.shape)
    return _affine(out, _channels(weight, input), _channels(bias, input))


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    import torch

    if training or running_mean is None:
        axes = tuple(i for i in range(input.dim()) if i != 1)
        out = _standardized(input, axes, eps)
    else:
        centred = torch.sub(input, _channels(running_mean, input))
        out = torch.mul(centred, torch.rsqrt(torch.add(_channels(running_var, input), eps)))
    return _affine(out, _channels(weight, input), _channels(bias, input))


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    out = _standardized(input, tuple(range(2, input.dim())), eps)
    return _affine(out, _channels(weight, input), _channels(bias, input))


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    import torch

    centred = torch.sub(x, torch.mean(x, axes, True))
    variance = torch.mean(torch.pow(centred, 2), axes, True)
    return torch.mul(centred, torch.rsqrt(torch.add(variance, eps)))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    import torch

    out = x if weight is None else torch.mul(x, weight)
    return out if bias is None else torch.add(out, bias)


def _channels(x: Any, like: Any) -> Any:
    """A value for each channel, shaped to stand beside ``like``."""
    import torch

    return None if x is None else torch.reshape(x, (1, -1) + (1,) * (like.dim() - 2))


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    import torch

    size = torch.pow(torch.sum(torch.pow(torch.abs(input), p), dim, True), 1 / p)
    return torch.div(input, torch.clamp(size, min=eps))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Class labels or class probabilities along axis 1 (0 for one sample)."""
    import torch

    axis = 1 if input.dim() > 1 else 0
    logits = torch.nn.functional.log_softmax(input, axis)
    classes = input.size(axis)
    shaped = None if weight is None else torch.reshape(weight, (-1,) + (1,) * (input.dim() - axis - 1))
    weighted = logits if shaped is None else torch.mul(logits, shaped)
    if target.is_floating_point():
        smooth = torch.add(torch.mul(target, 1 - label_smoothing), label_smoothing / classes)
        loss = torch.neg(torch.sum(torch.mul(weighted, smooth), axis))
        count: Any = max(loss.numel(), 1)
    else:
        kept = torch.ne(target, ignore_index)
        safe = torch.where(kept, target, torch.zeros_like(target))
        picked = torch.squeeze(torch.gather(weighted, axis, torch.unsqueeze(safe, axis)), axis)
        loss = torch.neg(picked)
        if label_smoothing:
            even = torch.mul(torch.neg(torch.sum(weighted, axis)), label_smoothing / classes)
            loss = torch.add(torch.mul(loss, 1 - label_smoothing), even)
        loss = torch.where(kept, loss, torch.zeros_like(loss))
        share = kept.to(loss.dtype)
        if weight is not None:
            share = torch.mul(share, torch.index_select(weight, 0, safe.reshape(-1)).reshape(safe.shape))
        count = torch.sum(share)
    if reduction == "none":
        return loss
    total = torch.sum(loss)
    return total if reduction == "sum" else torch.div(total, count)


def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    import torch

    return torch.tanh(torch.add(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh)))


def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    import torch

    return torch.relu(torch.add(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh)))


def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    import torch

    hidden, cell = hx
    gates = torch.add(linear(input, w_ih, b_ih), linear(hidden, w_hh, b_hh))
    i, f, g, o = torch.chunk(gates, 4, -1)
    kept = torch.mul(torch.sigmoid(f), cell)
    cell = torch.add(kept, torch.mul(torch.sigmoid(i), torch.tanh(g)))
    return torch.mul(torch.sigmoid(o), torch.tanh(cell)), cell


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    import torch

    r_in, z_in, n_in = torch.chunk(linear(input, w_ih, b_ih), 3, -1)
    r_hid, z_hid, n_hid = torch.chunk(linear(hx, w_hh, b_hh), 3, -1)
    reset = torch.sigmoid(torch.add(r_in, r_hid))
    update = torch.sigmoid(torch.add(z_in, z_hid))
    new = torch.tanh(torch.add(n_in, torch.mul(reset, n_hid)))
    return torch.add(torch.mul(torch.sub(1, update), new), torch.mul(update, hx))


def lstm(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    import torch

    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, states = _recurrent(lstm_cell, input, list(zip(hx[0], hx[1])), params, *options)
    return out, torch.stack([h for h, _ in states]), torch.stack([c for _, c in states])


def gru(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    import torch

    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, states = _recurrent(gru_cell, input, list(hx), params, *options)
    return out, torch.stack(states)


def rnn_tanh(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    import torch

    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, states = _recurrent(rnn_tanh_cell, input, list(hx), params, *options)
    return out, torch.stack(states)


def rnn_relu(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    import torch

    options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, states = _recurrent(rnn_relu_cell, input, list(hx), params, *options)
    return out, torch.stack(states)


def _recurrent(
    cell: Any,
    input: Any,
    states: list[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout_p: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, list[Any]]:
    """All layers, step by step; ``states`` and the returned ones: layer by layer, forward before backward."""
    import torch

    each = 4 if has_biases else 2
    steps = list(torch.unbind(input, 1 if batch_first else 0))
    finals = []
    for layer in range(num_layers):
        outs = []
        for direction in range(2 if bidirectional else 1):
            place = layer * (2 if bidirectional else 1) + direction
            weights = params[place * each : (place + 1) * each]
            state = states[place]
            made = []
            for x in reversed(steps) if direction else steps:
                state = cell(x, state, *weights)
                made.append(state[0] if isinstance(state, tuple) else state)
            outs.append(made[::-1] if direction else made)
            finals.append(state)
        steps = [torch.cat(pair, -1) for pair in zip(*outs)] if bidirectional else outs[0]
        if dropout_p and train and layer < num_layers - 1:
            steps = list(torch.unbind(torch.nn.functional.dropout(torch.stack(steps), dropout_p), 0))
    return torch.stack(steps, 1 if batch_first else 0), finals
