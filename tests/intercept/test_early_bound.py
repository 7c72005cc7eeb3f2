"""Calls through names bound before the trace are recorded, wherever the name is kept."""

import functools

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

torch_gelu, torch_tanh = torch.nn.functional.gelu, torch.tanh
paddle_gelu, paddle_matmul = paddle.nn.functional.gelu, paddle.linalg.matmul
NAMES = {
    "torch python function": (torch_gelu, "torch.nn.functional.gelu", lambda: (torch.ones(2, 2),)),
    "torch builtin": (torch_tanh, "torch.tanh", lambda: (torch.ones(2, 2),)),
    "torch method": (torch.Tensor.sigmoid, "torch.Tensor.sigmoid", lambda: (torch.ones(2, 2),)),
    "torch linalg": (torch.linalg.inv, "torch.linalg.inv", lambda: (torch.eye(2),)),
    "torch nn builtin": (
        torch.nn.functional.linear,
        "torch.nn.functional.linear",
        lambda: (torch.eye(2), torch.eye(2)),
    ),
    "paddle function": (paddle_gelu, "paddle.nn.functional.gelu", lambda: (paddle.ones([2, 2]),)),
    "paddle builtin": (
        paddle_matmul,
        "paddle.linalg.matmul",
        lambda: (paddle.ones([2, 2]), paddle.ones([2, 2])),
    ),
    "paddle method": (
        paddle.Tensor.__getitem__,
        "paddle.Tensor.__getitem__",
        lambda: (paddle.ones([2, 2]), 0),
    ),
}


class Holder:
    def __init__(self, function):
        self.act = function


def in_object(function):
    holder = Holder(function)
    return lambda *args: holder.act(*args)


def closed_over(function):
    return lambda *args: function(*args)


def with_default(function):
    def call(*args, function=function):
        return function(*args)

    return call


def with_positional_default(function):
    def call(first, second=None, function=function):
        return function(first) if second is None else function(first, second)

    return call


KEPT = {
    "attribute": lambda f: Holder(f).act,
    "object": in_object,
    "dictionary": lambda f: lambda *a, table={"act": f}: table["act"](*a),
    "list": lambda f: lambda *a, table=[f]: table[0](*a),
    "nested": lambda f: lambda *a, table={"x": [{"y": f}]}: table["x"][0]["y"](*a),
    "partial": lambda f: functools.partial(f),
    "closure": closed_over,
    "keyword default": with_default,
    "positional default": with_positional_default,
}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("name", NAMES)
def test_kept_in(name, kept):
    function, api, make = NAMES[name]
    if kept == "attribute" and name == "paddle builtin":
        pytest.skip("a bare local variable of a builtin can't be seen")
    held = KEPT[kept](function)
    arguments = make()
    expected = held(*arguments)
    with trace(level="meta") as t:
        result = held(*arguments)
    assert (result == expected).all()
    assert api in [c.api for c in t.calls if c.parent < 0], [c.api for c in t.calls]
    assert not t.errors


def test_paddle_builtins_are_put_back_where_they_were():
    table, holder, cell, default = (
        {"m": paddle_matmul},
        Holder(paddle_matmul),
        closed_over(paddle_matmul),
        with_default(paddle_matmul),
    )
    partial = functools.partial(paddle_matmul, name=None)
    with trace(level="meta"):
        table["copy"] = 1
    assert table["m"] is holder.act is paddle_matmul is partial.func
    assert cell.__closure__[0].cell_contents is paddle_matmul
    assert default.__kwdefaults__["function"] is paddle_matmul
    assert partial.keywords == {"name": None}


def test_modules_that_took_the_function():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.functional.silu

        def forward(self, x):
            return self.act(x)

    class Layer(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.act, self.mix = paddle.nn.functional.silu, paddle.linalg.matmul

        def forward(self, x):
            return self.mix(self.act(x), x)

    block, layer = Block(), Layer()
    with trace(level="meta") as t:
        block(torch.ones(2))
        layer(paddle.ones([2, 2]))
    top = [c.api for c in t.calls if c.parent < 0 and not c.api.endswith("ones")]
    assert top == ["torch.nn.functional.silu", "paddle.nn.functional.silu", "paddle.linalg.matmul"]
