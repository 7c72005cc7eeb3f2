"""``assign_weight`` on pairs of small models, each of one kind, in both directions.

Every case gives (torch model, paddle model, inputs). The weights are right when both models give the
same outputs on inputs that were not used for the matching.
"""

import math

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from optrace.errors import WeightError  # noqa: E402
from optrace.weights.assign import assign_weight  # noqa: E402
from optrace.weights.verify import compare, forward  # noqa: E402

tn, pn = torch.nn, paddle.nn
tf, pf = torch.nn.functional, paddle.nn.functional
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def net(framework, parts, run):
    """A model with the sublayers or parameters of ``parts()`` whose forward is ``run(self, **inputs)``."""
    base = tn.Module if framework == "torch" else pn.Layer

    class Model(base):
        def __init__(self):
            super().__init__()
            for name, part in parts(self).items():
                setattr(self, name, part)

        def forward(self, **inputs):
            return run(self, **inputs)

    return Model()


def tp(*shape):
    return tn.Parameter(torch.randn(*shape) * 0.5)


def pp(self, *shape):
    return self.create_parameter(list(shape), default_initializer=pn.initializer.Normal(0, 0.5))


def floats(*shape, seed=0):
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype("float32")}


@case
def square_linears():
    t = net(
        "torch", lambda s: {"a": tn.Linear(6, 6), "b": tn.Linear(6, 6)}, lambda s, x: s.b(torch.tanh(s.a(x)))
    )
    p = net(
        "paddle",
        lambda s: {"b": pn.Linear(6, 6), "a": pn.Linear(6, 6)},
        lambda s, x: s.a(paddle.tanh(s.b(x))),
    )
    return t, p, floats(3, 6)


@case
def embedding_against_parameter():
    ids = {"ids": np.array([[1, 2, 0], [3, 4, 1]])}
    t = net("torch", lambda s: {"pos": tp(1, 8, 6), "e": tn.Embedding(5, 6), "l": tn.Linear(6, 6)},
            lambda s, ids: s.l(s.e(ids) + s.pos[:, : ids.shape[1]]))  # fmt: skip
    p = net("paddle", lambda s: {"table": pp(s, 5, 6), "where": pn.Embedding(8, 6), "out": pn.Linear(6, 6)},
            lambda s, ids: s.out(s.table[ids] + s.where(paddle.arange(ids.shape[1]))))  # fmt: skip
    return t, p, ids


def attention(q, k, v, fw):
    if fw == "torch":
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(4), -1) @ v
    return paddle.matmul(pf.softmax(paddle.matmul(q, k, transpose_y=True) / math.sqrt(4), -1), v)


def heads(x, fw):
    b, n, _ = x.shape
    return (
        x.reshape(b, n, 2, 4).transpose(1, 2)
        if fw == "torch"
        else x.reshape([b, n, 2, 4]).transpose([0, 2, 1, 3])
    )


def joined(x, fw):
    b, _, n, _ = x.shape
    return (
        x.transpose(1, 2).reshape(b, n, 8) if fw == "torch" else x.transpose([0, 2, 1, 3]).reshape([b, n, 8])
    )


def split_attention(fw, order="qkv"):
    linear = tn.Linear if fw == "torch" else pn.Linear

    def run(s, x):
        made = {name: heads(getattr(s, name)(x), fw) for name in order}
        return s.o(joined(attention(made["q"], made["k"], made["v"], fw), fw))

    return net(fw, lambda s: {**{n: linear(8, 8) for n in order}, "o": linear(8, 8)}, run)


def fused_attention(fw, interleaved=False):
    linear = tn.Linear if fw == "torch" else pn.Linear

    def run(s, x):
        b, n, _ = x.shape
        shape, axes = (
            ((b, n, 2, 3, 4), (3, 0, 2, 1, 4)) if interleaved else ((b, n, 3, 2, 4), (2, 0, 3, 1, 4))
        )
        y = s.w(x).reshape(shape)
        y = y.permute(*axes) if fw == "torch" else y.transpose(list(axes))
        return s.o(joined(attention(y[0], y[1], y[2], fw), fw))

    return net(fw, lambda s: {"w": linear(8, 24), "o": linear(8, 8)}, run)


@case
def fused_to_split():
    return fused_attention("torch"), split_attention("paddle"), floats(2, 5, 8)


@case
def split_to_fused():
    return split_attention("torch"), fused_attention("paddle"), floats(2, 5, 8)


@case
def interleaved_to_split():
    return fused_attention("torch", True), split_attention("paddle", "vkq"), floats(2, 5, 8)


@case
def split_to_interleaved():
    return split_attention("torch", "kqv"), fused_attention("paddle", True), floats(2, 5, 8)


@case
def fused_to_interleaved():
    return fused_attention("torch"), fused_attention("paddle", True), floats(2, 5, 8)


@case
def other_order_of_calls():
    return split_attention("torch", "qkv"), split_attention("paddle", "vqk"), floats(2, 5, 8)


@case
def key_value_fused_only():
    def run(s, x):
        k, v = s.kv(x).chunk(2, -1)
        return s.o(
            joined(attention(heads(s.q(x), "torch"), heads(k, "torch"), heads(v, "torch"), "torch"), "torch")
        )

    t = net("torch", lambda s: {"q": tn.Linear(8, 8), "kv": tn.Linear(8, 16), "o": tn.Linear(8, 8)}, run)
    return t, split_attention("paddle"), floats(2, 5, 8)


@case
def gated_mlp_fused():
    t = net("torch", lambda s: {"gate": tn.Linear(6, 10), "up": tn.Linear(6, 10), "down": tn.Linear(10, 6)},
            lambda s, x: s.down(tf.silu(s.gate(x)) * s.up(x)))  # fmt: skip

    def run(s, x):
        a, b = s.both(x).chunk(2, -1)
        return s.down(pf.silu(a) * b)

    return (
        t,
        net("paddle", lambda s: {"both": pn.Linear(6, 20), "down": pn.Linear(20 // 2, 6)}, run),
        floats(3, 6),
    )


def mha(t_kw=None, p_kw=None, run_t=None, run_p=None):
    t = net("torch", lambda s: {"m": tn.MultiheadAttention(8, 2, batch_first=True, **(t_kw or {}))},
            run_t or (lambda s, x: s.m(x, x, x, need_weights=False)[0]))  # fmt: skip
    for p in t.parameters():
        tn.init.normal_(p, 0.1, 0.4)
    p = net(
        "paddle",
        lambda s: {"m": pn.MultiHeadAttention(8, 2, **(p_kw or {}))},
        run_p or (lambda s, x: s.m(x, x, x)),
    )
    return t, p


@case
def multihead_attention():
    return *mha(), floats(2, 5, 8)


@case
def multihead_attention_cross():
    inputs = {**floats(2, 5, 8), "y": floats(2, 3, 8, seed=1)["x"]}
    return *mha(
        None, None, lambda s, x, y: s.m(x, y, y, need_weights=False)[0], lambda s, x, y: s.m(x, y, y)
    ), inputs


@case
def multihead_attention_other_sizes():
    inputs = {**floats(2, 5, 8), "y": floats(2, 3, 6, seed=1)["x"], "z": floats(2, 3, 4, seed=2)["x"]}
    return *mha(
        {"kdim": 6, "vdim": 4}, {"kdim": 6, "vdim": 4},
        lambda s, x, y, z: s.m(x, y, z, need_weights=False)[0], lambda s, x, y, z: s.m(x, y, z),
    ), inputs  # fmt: skip


@case
def multihead_attention_by_hand():
    t, _ = mha()
    return t, split_attention("paddle"), floats(2, 5, 8)


def recurrent(t_class, p_class, t_kw, p_kw):
    t = net("torch", lambda s: {"r": t_class(5, 4, batch_first=True, **t_kw)}, lambda s, x: s.r(x)[0])
    p = net("paddle", lambda s: {"r": p_class(5, 4, **p_kw)}, lambda s, x: s.r(x)[0])
    return t, p, floats(2, 6, 5)


@case
def lstm():
    return recurrent(tn.LSTM, pn.LSTM, {"num_layers": 2, "bidirectional": True},
                     {"num_layers": 2, "direction": "bidirect"})  # fmt: skip


@case
def gru():
    return recurrent(tn.GRU, pn.GRU, {"num_layers": 2}, {"num_layers": 2})


@case
def simple_rnn():
    return recurrent(tn.RNN, pn.SimpleRNN, {"bidirectional": True}, {"direction": "bidirect"})


@case
def lstm_against_cells():
    t = net("torch", lambda s: {"r": tn.LSTM(5, 4, batch_first=True)}, lambda s, x: s.r(x)[0])
    p = net("paddle", lambda s: {"r": pn.RNN(pn.LSTMCell(5, 4))}, lambda s, x: s.r(x)[0])
    return t, p, floats(2, 6, 5)


@case
def gru_against_cells():
    t = net(
        "torch", lambda s: {"r": tn.GRU(5, 4, batch_first=True, bidirectional=True)}, lambda s, x: s.r(x)[0]
    )
    p = net("paddle", lambda s: {"r": pn.BiRNN(pn.GRUCell(5, 4), pn.GRUCell(5, 4))}, lambda s, x: s.r(x)[0])
    return t, p, floats(2, 6, 5)


def shaken(model):
    for _, b in model.named_buffers():
        if b.dtype == torch.float32:
            b.uniform_(0.5, 1.5)
    for p in model.parameters():
        tn.init.normal_(p, 0.2, 0.5)
    return model


@case
def batch_norm_statistics():
    plain_t, plain_p = tn.BatchNorm2d(4, affine=False), pn.BatchNorm2D(4, weight_attr=False, bias_attr=False)
    t = net("torch", lambda s: {"c": tn.Conv2d(3, 4, 3), "n": tn.BatchNorm2d(4), "m": plain_t},
            lambda s, x: s.m(s.n(s.c(x))))  # fmt: skip
    p = net("paddle", lambda s: {"n2": plain_p, "n1": pn.BatchNorm2D(4), "conv": pn.Conv2D(3, 4, 3)},
            lambda s, x: s.n2(s.n1(s.conv(x))))  # fmt: skip
    return shaken(t), p, floats(2, 3, 6, 6)


@case
def instance_norm():
    t = net("torch", lambda s: {"n": tn.InstanceNorm2d(3, affine=True), "c": tn.Conv2d(3, 3, 1)},
            lambda s, x: s.c(s.n(x)))  # fmt: skip
    p = net(
        "paddle", lambda s: {"n": pn.InstanceNorm2D(3), "c": pn.Conv2D(3, 3, 1)}, lambda s, x: s.c(s.n(x))
    )
    return shaken(t), p, floats(2, 3, 6, 6)


@case
def batch_norm_by_hand():
    t = net("torch", lambda s: {"n": tn.BatchNorm1d(4), "l": tn.Linear(4, 4)}, lambda s, x: s.l(s.n(x)))

    def parts(s):
        s.register_buffer("mean", paddle.zeros([4]))
        s.register_buffer("var", paddle.ones([4]))
        return {"gamma": pp(s, 4), "beta": pp(s, 4), "l": pn.Linear(4, 4)}

    def run(s, x):
        return s.l((x - s.mean) / paddle.sqrt(s.var + 1e-5) * s.gamma + s.beta)

    return shaken(t), net("paddle", parts, run), floats(5, 4)


@case
def weight_norm():
    t = net("torch", lambda s: {"l": torch.nn.utils.parametrizations.weight_norm(tn.Linear(5, 4)),
                                "c": torch.nn.utils.parametrizations.weight_norm(tn.Conv1d(4, 4, 1))},
            lambda s, x: s.c(s.l(x).transpose(1, 2)))  # fmt: skip
    p = net("paddle", lambda s: {"l": pn.utils.weight_norm(pn.Linear(5, 4), dim=1),
                                 "c": pn.utils.weight_norm(pn.Conv1D(4, 4, 1), dim=0)},
            lambda s, x: s.c(s.l(x).transpose([0, 2, 1])))  # fmt: skip
    return shaken(t), p, floats(2, 3, 5)


@case
def weight_norm_on_torch_only():
    t = net("torch", lambda s: {"l": torch.nn.utils.parametrizations.weight_norm(tn.Linear(4, 4))},
            lambda s, x: s.l(x))  # fmt: skip
    return shaken(t), net("paddle", lambda s: {"l": pn.Linear(4, 4)}, lambda s, x: s.l(x)), floats(3, 4)


@case
def shared_layer_against_copies():
    t = net("torch", lambda s: {"a": tn.Linear(6, 6), "b": tn.Linear(6, 6)},
            lambda s, x: s.b(torch.tanh(s.a(torch.tanh(s.a(x))))))  # fmt: skip
    p = net("paddle", lambda s: {"a": pn.Linear(6, 6), "b": pn.Linear(6, 6), "c": pn.Linear(6, 6)},
            lambda s, x: s.c(paddle.tanh(s.b(paddle.tanh(s.a(x))))))  # fmt: skip
    return t, p, floats(3, 6)


@case
def shared_layer_on_both_sides():
    t = net("torch", lambda s: {"b": tn.Linear(6, 6), "a": tn.Linear(6, 6)},
            lambda s, x: s.b(torch.tanh(s.a(torch.tanh(s.a(x))))))  # fmt: skip
    p = net("paddle", lambda s: {"a": pn.Linear(6, 6), "b": pn.Linear(6, 6)},
            lambda s, x: s.b(paddle.tanh(s.a(paddle.tanh(s.a(x))))))  # fmt: skip
    return t, p, floats(3, 6)


@case
def tied_against_untied():
    ids = {"ids": np.array([[1, 2, 0], [3, 4, 1]])}
    t = net("torch", lambda s: {"e": tn.Embedding(5, 5)}, lambda s, ids: s.e(ids) @ s.e.weight.t())
    p = net("paddle", lambda s: {"e": pn.Embedding(5, 5), "head": pn.Linear(5, 5, bias_attr=False)},
            lambda s, ids: s.head(s.e(ids)))  # fmt: skip
    return t, p, ids


@case
def wrappers():
    class Wrap(tn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    t = net("torch", lambda s: {"a": Wrap(Wrap(tn.Linear(6, 6))), "b": tn.Sequential(tn.Tanh(), tn.Linear(6, 6))},
            lambda s, x: s.b(s.a(x)))  # fmt: skip
    p = net(
        "paddle",
        lambda s: {"b": pn.Linear(6, 6), "a": pn.Linear(6, 6)},
        lambda s, x: s.a(paddle.tanh(s.b(x))),
    )
    return t, p, floats(3, 6)


@case
def class_token_and_positions():
    t = net("torch", lambda s: {"pos": tp(1, 6, 4), "cls": tp(1, 1, 4), "l": tn.Linear(4, 4)},
            lambda s, x: s.l(torch.cat([s.cls.expand(x.shape[0], -1, -1), x], 1) + s.pos))  # fmt: skip
    p = net("paddle", lambda s: {"token": pp(s, 1, 1, 4), "table": pp(s, 1, 6, 4), "l": pn.Linear(4, 4)},
            lambda s, x: s.l(paddle.concat([s.token.expand([len(x), 1, 4]), x], 1) + s.table))  # fmt: skip
    return t, p, floats(2, 5, 4)


@case
def bfloat16():
    t = net("torch", lambda s: {"e": tn.Embedding(5, 6), "b": tn.Embedding(5, 6)},
            lambda s, ids: s.e(ids).float() - s.b(ids).float())  # fmt: skip
    p = net("paddle", lambda s: {"b": pn.Embedding(5, 6), "e": pn.Embedding(5, 6)},
            lambda s, ids: s.b(ids).astype("float32") - s.e(ids).astype("float32"))  # fmt: skip
    return shaken(t).bfloat16(), p.bfloat16(), {"ids": np.array([[1, 2, 0]])}


@case
def half_to_float():
    t = net(
        "torch",
        lambda s: {"a": tn.Linear(6, 6), "b": tn.Linear(6, 6)},
        lambda s, x: s.b(s.a(x.half())).float(),
    )
    p = net("paddle", lambda s: {"a": pn.Linear(6, 6), "b": pn.Linear(6, 6)}, lambda s, x: s.b(s.a(x)))
    return t.half(), p, floats(3, 6)


@case
def branches_in_other_order():
    t = net("torch", lambda s: {"a": tn.Linear(6, 6), "b": tn.Linear(6, 6), "o": tn.Linear(6, 6)},
            lambda s, x: s.o(torch.tanh(s.a(x)) + torch.relu(s.b(x))))  # fmt: skip

    def run(s, x):
        second = pf.relu(s.one(x))
        return s.o(second + paddle.tanh(s.two(x)))

    p = net("paddle", lambda s: {"one": pn.Linear(6, 6), "two": pn.Linear(6, 6), "o": pn.Linear(6, 6)}, run)
    return t, p, floats(3, 6)


@case
def many_branches_in_other_order():
    acts_t = [torch.tanh, torch.relu, torch.sigmoid, torch.sin]
    acts_p = [paddle.sin, pf.relu, paddle.tanh, pf.sigmoid]
    t = net("torch", lambda s: {f"l{i}": tn.Linear(6, 6) for i in range(4)},
            lambda s, x: sum(f(getattr(s, f"l{i}")(x)) for i, f in enumerate(acts_t)))  # fmt: skip
    p = net("paddle", lambda s: {f"w{i}": pn.Linear(6, 6) for i in range(4)},
            lambda s, x: sum(f(getattr(s, f"w{i}")(x)) for i, f in enumerate(acts_p)))  # fmt: skip
    return t, p, floats(3, 6)


@case
def vectors_used_alike():
    t = net("torch", lambda s: {"a": tp(6), "b": tp(6), "c": tp(6), "d": tp(6)},
            lambda s, x: torch.tanh(torch.tanh(x * s.d + s.c) * s.b) + s.a)  # fmt: skip
    p = net("paddle", lambda s: {"a": pp(s, 6), "b": pp(s, 6), "c": pp(s, 6), "d": pp(s, 6)},
            lambda s, x: s.d + paddle.tanh(s.c * paddle.tanh(s.b + x * s.a)))  # fmt: skip
    return t, p, floats(3, 6)


@case
def patches_by_convolution_and_by_linear():
    t = net(
        "torch", lambda s: {"c": tn.Conv2d(3, 8, 4, stride=4)}, lambda s, x: s.c(x).flatten(2).transpose(1, 2)
    )

    def run(s, x):
        b = x.shape[0]
        x = x.reshape([b, 3, 2, 4, 2, 4]).transpose([0, 2, 4, 1, 3, 5]).reshape([b, 4, 48])
        return s.l(x)

    return t, net("paddle", lambda s: {"l": pn.Linear(48, 8)}, run), floats(2, 3, 8, 8)


@case
def heads_by_einsum():
    t = net("torch", lambda s: {"l": tn.Linear(8, 8), "o": tn.Linear(8, 8)},
            lambda s, x: s.o(torch.tanh(s.l(x))))  # fmt: skip

    def run(s, x):
        h = paddle.tanh(paddle.einsum("bnd,dhk->bnhk", x, s.w) + s.b)
        return paddle.einsum("bnhk,hkd->bnd", h, s.v) + s.c

    p = net(
        "paddle", lambda s: {"w": pp(s, 8, 2, 4), "b": pp(s, 2, 4), "v": pp(s, 2, 4, 8), "c": pp(s, 8)}, run
    )
    return t, p, floats(2, 5, 8)


@case
def matrix_on_the_left():
    t = net("torch", lambda s: {"w": tp(5, 5), "l": tn.Linear(6, 6)}, lambda s, x: s.l(s.w @ x))
    p = net("paddle", lambda s: {"w": pn.Linear(5, 5, bias_attr=False), "l": pn.Linear(6, 6)},
            lambda s, x: s.l(s.w(x.transpose([0, 2, 1])).transpose([0, 2, 1])))  # fmt: skip
    return t, p, floats(2, 5, 6)


# The other way round one parameter would have to hold two.
ONE_WAY = {"shared_layer_against_copies", "tied_against_untied"}


@pytest.mark.parametrize("direction", ["torch_is_base", "paddle_is_base"])
@pytest.mark.parametrize("name", CASES)
def test_kind(name, direction):
    torch.manual_seed(0)
    paddle.seed(0)
    t, p, inputs = CASES[name]()
    base, raw = (t, p) if direction == "torch_is_base" else (p, t)
    if name in ONE_WAY and base is p:
        with pytest.raises(WeightError, match=r"would have to hold both"):
            assign_weight(base, raw, inputs)
        return
    report = assign_weight(base, raw, inputs)
    assert report, str(report)
    assert report.verified is not False, str(report)
    fresh = {
        k: np.random.default_rng(9).standard_normal(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v
        for k, v in inputs.items()
    }
    found = compare(forward(base, fresh), forward(raw, fresh), 1e-3 if name == "half_to_float" else 0.0)
    assert found.close, f"{found}\n{report}"
