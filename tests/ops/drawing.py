"""One call of every public name that moves a generator on CPU: ``name -> call(function, tensor maker)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[Any, Callable[..., Any]], Any]


def tensor(framework: str) -> Callable[..., Any]:
    """Makes a tensor of the given shape, with values between 0.1 and 0.9."""

    def make(*shape: int, dtype: str = "float32") -> Any:
        values = np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(dtype)
        if framework == "torch":
            import torch

            return torch.from_numpy(values)
        import paddle

        return paddle.to_tensor(values)

    return make


def _on(*shape: int, args: tuple[Any, ...] = (), **kwargs: Any) -> Call:
    return lambda f, t: f(t(*shape), *args, **kwargs)


def _plain(*args: Any, **kwargs: Any) -> Call:
    return lambda f, t: f(*args, **kwargs)


def _layer(*args: Any, on: tuple[int, ...] = (2, 3, 4, 4), times: int = 1, **kwargs: Any) -> Call:
    """The layer's forward in train mode, after it was made."""

    def run(f: Any, t: Callable[..., Any]) -> Any:
        layer = f(*args, **kwargs)
        inputs = [t(*on)] * times
        before = _state(t)
        result = layer(*inputs)
        assert _state(t) != before, "only making the layer draws"
        return result

    return run


def _state(t: Callable[..., Any]) -> Any:
    from optrace import frameworks

    return frameworks.get("torch" if type(t(1)).__module__ == "torch" else "paddle").rng_state()


def _mha(f: Any, t: Callable[..., Any]) -> Any:
    q = t(5, 2, 8)
    return f(q, q, q, 8, 2, t(24, 8), t(24), None, None, False, 0.5, t(8, 8), t(8))


def _lstm(gates: int, state: int) -> Call:
    def run(f: Any, t: Callable[..., Any]) -> Any:
        start = tuple(t(2, 2, 3) for _ in range(state))
        weights = [
            w for _ in range(2) for w in (t(gates * 3, 3), t(gates * 3, 3), t(gates * 3), t(gates * 3))
        ]
        hidden = start if state > 1 else start[0]
        return f(t(4, 2, 3), hidden, weights, True, 2, 0.5, True, False, False)

    return run


_N = "torch.nn.functional."
_IMAGE = (2, 3, 8, 8)
TORCH: dict[str, Call] = {
    **{_N + n: _on(*s) for n, s in (("dropout", (4,)), ("dropout1d", (2, 3, 4)), ("dropout2d", _IMAGE))},
    _N + "dropout3d": _on(2, 3, 4, 4, 4),
    **{_N + n: _on(2, 3, 4, args=(0.5, True)) for n in ("alpha_dropout", "feature_alpha_dropout")},
    **{_N + n: lambda f, t: f(-t(4), training=True) for n in ("rrelu", "rrelu_")},
    _N + "gumbel_softmax": _on(3, 4),
    _N + "scaled_dot_product_attention": lambda f, t: f(*[t(1, 2, 4, 8)] * 3, dropout_p=0.5),
    _N + "multi_head_attention_forward": _mha,
    _N + "fractional_max_pool2d": _on(*_IMAGE, args=(2, 3)),
    _N + "fractional_max_pool2d_with_indices": _on(*_IMAGE, args=(2, 3)),
    _N + "fractional_max_pool3d": _on(1, 2, 6, 6, 6, args=(2, 3)),
    _N + "fractional_max_pool3d_with_indices": _on(1, 2, 6, 6, 6, args=(2, 3)),
    **{
        f"torch.{n}": _on(2, 3, 4, args=(0.5, True))
        for n in ("dropout", "dropout_", "alpha_dropout", "alpha_dropout_", "feature_dropout")
    },
    **{
        f"torch.{n}": _on(2, 3, 4, args=(0.5, True))
        for n in ("feature_dropout_", "feature_alpha_dropout", "feature_alpha_dropout_", "native_dropout")
    },
    **{f"torch.{n}": lambda f, t: f(-t(4), 0.1, 0.3, True) for n in ("rrelu", "rrelu_")},
    "torch.lstm": _lstm(4, 2),
    "torch.gru": _lstm(3, 1),
    "torch.rnn_tanh": _lstm(1, 1),
    "torch.rnn_relu": _lstm(1, 1),
    "torch.bernoulli": _on(4),
    "torch.poisson": _on(4),
    "torch.binomial": lambda f, t: f(t(4) * 0 + 9, t(4)),
    "torch.multinomial": _on(4, args=(2,)),
    "torch.normal": _plain(0.0, 1.0, (3,)),
    "torch.rand": _plain(3),
    "torch.randn": _plain(3),
    "torch.randint": _plain(0, 5, (3,)),
    "torch.randperm": _plain(5),
    "torch.rand_like": _on(4),
    "torch.randn_like": _on(4),
    "torch.randint_like": _on(4, args=(0, 5)),
    "torch.lobpcg": lambda f, t: f(t(9, 9) @ t(9, 9).T, 2),
    "torch.pca_lowrank": _on(6, 6, args=(2,)),
    "torch.svd_lowrank": _on(6, 6, args=(2,)),
    **{
        f"torch.Tensor.{n}": _on(4)
        for n in ("bernoulli", "bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "random_")
    },
    "torch.Tensor.uniform_": _on(4),
    "torch.Tensor.geometric_": _on(4, args=(0.5,)),
    "torch.Tensor.multinomial": _on(4, args=(2,)),
    **{
        f"torch.nn.init.{n}": _on(4, 4)
        for n in (
            "kaiming_normal_",
            "kaiming_uniform_",
            "normal_",
            "orthogonal_",
            "trunc_normal_",
            "uniform_",
        )
    },
    **{f"torch.nn.init.{n}": _on(4, 4) for n in ("xavier_normal_", "xavier_uniform_")},
    **{f"torch.nn.init.{n}": _on(4, 4, args=(0.5,)) for n in ("sparse_",)},
    **{f"torch.nn.{n}": _layer() for n in ("Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout")},
    "torch.nn.Dropout1d": _layer(on=(2, 3, 4)),
    "torch.nn.Dropout3d": _layer(on=(2, 3, 4, 4, 4)),
    "torch.nn.RReLU": lambda f, t: f()(-t(4)),
    **{f"torch.nn.{n}": _layer(3, 4, 2, dropout=0.5, on=(5, 2, 3)) for n in ("RNN", "LSTM", "GRU")},
    "torch.nn.MultiheadAttention": _layer(8, 2, dropout=0.5, on=(5, 2, 8), times=3),
    "torch.nn.Transformer": _layer(8, 2, 1, 1, 16, on=(5, 2, 8), times=2),
    "torch.nn.TransformerEncoderLayer": _layer(8, 2, 16, on=(5, 2, 8)),
    "torch.nn.TransformerDecoderLayer": _layer(8, 2, 16, on=(5, 2, 8), times=2),
    "torch.nn.TransformerEncoder": lambda f, t: f(_part("torch", "TransformerEncoderLayer"), 1)(t(5, 2, 8)),
    "torch.nn.TransformerDecoder": lambda f, t: f(_part("torch", "TransformerDecoderLayer"), 1)(
        t(5, 2, 8), t(5, 2, 8)
    ),
    "torch.nn.FractionalMaxPool2d": _layer(2, 3, on=_IMAGE),
    "torch.nn.FractionalMaxPool3d": _layer(2, 3, on=(1, 2, 6, 6, 6)),
}


def _part(framework: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(f"{framework}.nn"), name)(8, 2, 16)


_P = "paddle.nn.functional."
_I = "paddle.incubate.nn.functional."
PADDLE: dict[str, Call] = {
    **{
        _P + n: _on(*s) for n, s in (("dropout", (4,)), ("dropout2d", _IMAGE), ("dropout3d", (2, 3, 4, 4, 4)))
    },
    **{_P + n: _on(2, 3, 4) for n in ("dropout1d", "alpha_dropout", "feature_alpha_dropout")},
    _P + "rrelu": lambda f, t: f(-t(4), training=True),
    _P + "gumbel_softmax": _on(3, 4),
    _P + "scaled_dot_product_attention": lambda f, t: f(*[t(1, 4, 2, 8)] * 3, dropout_p=0.5),
    _P + "fractional_max_pool2d": _on(*_IMAGE, args=(2,)),
    _P + "fractional_max_pool3d": _on(1, 2, 6, 6, 6, args=(2,)),
    _I + "fused_dropout_add": lambda f, t: f(t(4), t(4)),
    "paddle.bernoulli": _on(4),
    "paddle.poisson": _on(4),
    "paddle.binomial": lambda f, t: f((t(4) * 0 + 9).astype("int64"), t(4)),
    "paddle.multinomial": _on(4, args=(2,)),
    "paddle.standard_gamma": _on(4),
    "paddle.normal": _plain(0.0, 1.0, [3]),
    "paddle.log_normal": _plain(0.0, 1.0, [3]),
    "paddle.rand": _plain([3]),
    "paddle.randn": _plain([3]),
    "paddle.standard_normal": _plain([3]),
    "paddle.uniform": _plain([3]),
    "paddle.randint": _plain(0, 5, [3]),
    "paddle.randperm": _plain(5),
    "paddle.rand_like": _on(4),
    "paddle.randn_like": _on(4),
    "paddle.randint_like": _on(4, args=(0, 5)),
    "paddle.linalg.pca_lowrank": _on(6, 6, args=(2,)),
    "paddle.linalg.svd_lowrank": _on(6, 6, args=(2,)),
    **{
        f"paddle.Tensor.{n}": _on(4)
        for n in ("bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "random_", "uniform_")
    },
    "paddle.Tensor.geometric_": _on(4, args=(0.5,)),
    "paddle.Tensor.multinomial": _on(4, args=(2,)),
    **{
        f"paddle.nn.init.{n}": _on(4, 4)
        for n in (
            "kaiming_normal_",
            "kaiming_uniform_",
            "orthogonal_",
            "trunc_normal_",
            "normal_",
            "uniform_",
        )
    },
    **{f"paddle.nn.init.{n}": _on(4, 4) for n in ("xavier_normal_", "xavier_uniform_")},
    **{
        f"paddle.nn.initializer.{n}": lambda f, t: _initialised(f())
        for n in (
            "KaimingNormal",
            "KaimingUniform",
            "Normal",
            "Orthogonal",
            "TruncatedNormal",
            "Uniform",
            "XavierNormal",
            "XavierUniform",
        )
    },
    **{f"paddle.nn.{n}": _layer() for n in ("Dropout", "Dropout2D", "AlphaDropout", "FeatureAlphaDropout")},
    "paddle.nn.Dropout3D": _layer(on=(2, 3, 4, 4, 4)),
    "paddle.nn.RReLU": lambda f, t: f()(-t(4)),
    **{f"paddle.nn.{n}": _layer(3, 4, 2, dropout=0.5, on=(5, 2, 3)) for n in ("SimpleRNN", "LSTM", "GRU")},
    "paddle.nn.MultiHeadAttention": _layer(8, 2, dropout=0.5, on=(2, 5, 8), times=3),
    "paddle.nn.Transformer": _layer(8, 2, 1, 1, 16, on=(2, 5, 8), times=2),
    "paddle.nn.TransformerEncoderLayer": _layer(8, 2, 16, on=(2, 5, 8)),
    "paddle.nn.TransformerDecoderLayer": _layer(8, 2, 16, on=(2, 5, 8), times=2),
    "paddle.nn.TransformerEncoder": lambda f, t: f(_part("paddle", "TransformerEncoderLayer"), 1)(t(2, 5, 8)),
    "paddle.nn.TransformerDecoder": lambda f, t: f(_part("paddle", "TransformerDecoderLayer"), 1)(
        t(2, 5, 8), t(2, 5, 8)
    ),
    "paddle.nn.FractionalMaxPool2D": _layer(2, on=_IMAGE),
    "paddle.nn.FractionalMaxPool3D": _layer(2, on=(1, 2, 6, 6, 6)),
}


def _initialised(initializer: Any) -> Any:
    import paddle

    return paddle.create_parameter([4, 4], "float32", default_initializer=initializer)
