"""Make a call with a draw that is given, in the semantics of that very API, by differentiable operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optrace import ops
from optrace.frameworks.base import Framework
from optrace.randomness.draws import (
    ALPHA,
    MASKS,
    Draw,
    alpha_terms,
    family_of,
    kept_share,
    own_axes,
    restated,
    thinned,
)
from optrace.trace.effect import effect_of, short


class CannotApply(Exception):
    """The draw does not fit the call; the text says why."""


def apply(
    framework: Framework,
    api: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    draw: Draw,
) -> Any:
    """The result of ``api(*args, **kwargs)`` had it drawn what ``draw`` did.

    Raises ``CannotApply``.
    """
    given = {**ops.defaults(api), **ops.bind(api, args, kwargs)}
    values = draw.values
    name = short(api)
    x: Any = next((v for v in given.values() if framework.is_tensor(v)), None)
    if name in MASKS:
        return _dropout(framework, name, api, given, x, values)
    if name in ALPHA:
        scale, shift, dropped = alpha_terms(effect_of(api, given).p or 0.0)
        keep = _like(framework, _fit(values, x.shape, name, given), x)
        return _inplace(framework, given, x, (x * keep + dropped * (1 - keep)) * scale + shift)
    if name == "rrelu":
        slopes = _fit(values, x.shape, name, given)
        slopes = np.where(slopes == 1, 1, restated(slopes, name, draw.given, given))
        return _inplace(framework, given, x, x * _like(framework, slopes, x))
    if name == "gumbel_softmax":
        return _gumbel(framework, given, x, values)
    if name == "scaled_dot_product_attention":
        return _attention(framework, given, values)
    return _sample(framework, api, given, x, draw)


def _like(framework: Framework, array: np.ndarray, x: Any) -> Any:
    """``array`` as a tensor of the dtype and on the device of ``x``."""
    kind = framework.info(x).dtype
    if kind == "bfloat16":
        import ml_dtypes

        return framework.from_numpy(array.astype(ml_dtypes.bfloat16))
    return framework.from_numpy(array.astype(kind))


def _fit(values: np.ndarray, shape: Any, name: str, given: dict[str, Any]) -> np.ndarray:
    """The mask in the call's shape, reduced to what the call can draw (whole channels, whole axes)."""
    shape = tuple(shape)
    if values.shape != shape:
        if values.size != math.prod(shape):
            raise CannotApply(f"the draw has shape {list(values.shape)}, the call needs {list(shape)}")
        values = values.reshape(shape)
    first = tuple(
        slice(None) if i in own_axes(name, given, len(shape)) else slice(0, 1) for i in range(len(shape))
    )
    return np.broadcast_to(values[first], shape)


def _dropout(
    framework: Framework, name: str, api: str, given: dict[str, Any], x: Any, values: np.ndarray
) -> Any:
    p = effect_of(api, given).p or 0.0
    scales = given.get("mode", "upscale_in_train") == "upscale_in_train"
    scale = (1 / (1 - p) if p < 1 else 0.0) if scales else 1.0
    mask = _fit(values, x.shape, name, given)
    result = x * _like(framework, mask * scale, x)
    if name == "fused_dropout_add":
        return result + given["y"]
    if name == "native_dropout":
        return result, framework.from_numpy(mask)
    return _inplace(framework, given, x, result)


def _inplace(framework: Framework, given: dict[str, Any], x: Any, result: Any) -> Any:
    if given.get("inplace"):
        _overwrite(framework, x, result)
        return x
    return result


def _overwrite(framework: Framework, x: Any, values: Any) -> None:
    """Write ``values`` into ``x`` by a call that counts a version, as the random call would have."""
    if framework.name == "torch":
        x.copy_(values)
    else:
        framework.resolve("paddle.assign")(values, x)


def _gumbel(framework: Framework, given: dict[str, Any], x: Any, values: np.ndarray) -> Any:
    tau = given.get("tau", given.get("temperature", 1.0))
    axis = given.get("dim", given.get("axis", -1))
    softmax = framework.resolve(f"{framework.name}.nn.functional.softmax")
    soft = softmax((x + _like(framework, _fit(values, x.shape, "", {}), x)) / tau, axis)
    if not given.get("hard"):
        return soft
    array = framework.to_numpy(soft)
    hard = _like(framework, array == array.max(axis=axis, keepdims=True), x)
    return hard - soft.detach() + soft


def _attention(framework: Framework, given: dict[str, Any], values: np.ndarray) -> Any:
    """torch's fused attention, written out."""
    q, k, v = given["query"], given["key"], given["value"]
    if given.get("enable_gqa"):
        repeat = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(repeat, -3), v.repeat_interleave(repeat, -3)
    scale = given.get("scale")
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if given.get("is_causal"):
        hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
        scores = scores.masked_fill(framework.from_numpy(hidden), -math.inf)
    mask = given.get("attn_mask")
    if mask is not None:
        boolean = framework.info(mask).dtype == "bool"
        scores = scores.masked_fill(~mask, -math.inf) if boolean else scores + mask
    weights = scores.softmax(-1)
    p = given.get("dropout_p", 0.0)
    keep = _fit(values, weights.shape, "", {}) / (1 - p if p < 1 else 1)
    return (weights * _like(framework, keep, weights)) @ v


def _sample(framework: Framework, api: str, given: dict[str, Any], x: Any, draw: Draw) -> Any:
    """The sample itself, moved and stretched where the two distributions differ in that."""
    values = restated(draw.values, family_of(api) or "", draw.given, given)
    theirs, own = kept_share(draw.call.api, draw.given), kept_share(api, given)
    if draw.family == "mask" and theirs is not None and own is not None:
        values = thinned(values, theirs, own)
    if api.endswith("_"):
        if tuple(x.shape) != values.shape and x.size != values.size:
            raise CannotApply(f"the draw has shape {list(values.shape)}, the call needs {list(x.shape)}")
        with framework.no_grad():
            _overwrite(framework, x, _like(framework, values.reshape(tuple(x.shape)), x))
        return x
    kind = given.get("dtype")
    named = framework.dtype_name(kind) if kind is not None and not isinstance(kind, str) else kind
    return framework.from_numpy(values.astype(named) if named else values)
