"""paddle's static graphs, to_static, amp and compatible modes under a trace."""

import numpy as np
import pytest

from optrace.trace.session import trace

paddle = pytest.importorskip("paddle")
F = paddle.nn.functional


def net(x):
    return F.relu(x) + paddle.matmul(x, x)


class Block(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 1000:
            return x[:1]
        return F.gelu(self.first(x))[:1]


def opaque(t):
    return " ".join(t.meta.get("opaque", {}))


@pytest.mark.parametrize("full_graph", [True, False])
def test_to_static(full_graph):
    x = paddle.ones([2, 2])
    before = paddle.jit.to_static(net, full_graph=full_graph)
    expected = before(x).numpy()
    with trace(level="full") as t:
        inside = paddle.jit.to_static(net, full_graph=full_graph)
        assert np.array_equal(inside(x).numpy(), expected)
        assert np.array_equal(before(x).numpy(), expected)
    assert np.array_equal(inside(x).numpy(), expected)
    assert not t.errors and "paddle.jit.to_static: net" in opaque(t)
    assert not [c for c in t.calls if "relu" in c.api]


@pytest.mark.parametrize("full_graph", [True, False])
def test_to_static_layers(full_graph):
    x = paddle.ones([2, 4])

    def run():
        paddle.seed(0)
        layer = Block()
        result = paddle.jit.to_static(layer, full_graph=full_graph)(x)
        result.sum().backward()
        gradient = layer.first.weight.grad
        return result.numpy(), gradient if gradient is None else gradient.numpy()

    expected = run()
    with trace(level="full") as t:
        result = run()
    assert np.array_equal(result[0], expected[0]) and np.array_equal(result[1], expected[1])
    assert not t.errors
    assert "forward" in opaque(t)


def test_static_mode_in_the_middle():
    with trace(level="full") as t:
        F.relu(paddle.ones([1]))
        paddle.enable_static()
        try:
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                out = F.relu(paddle.static.data("x", [2, 2])) + 1
            values = paddle.static.Executor().run(
                program, feed={"x": np.ones((2, 2), "float32")}, fetch_list=[out]
            )
        finally:
            paddle.disable_static()
        F.gelu(paddle.ones([1]))
    assert values[0].tolist() == [[2, 2], [2, 2]]
    assert [c.api.rpartition(".")[2] for c in t.calls if c.parent < 0] == ["ones", "relu", "ones", "gelu"]
    assert "static graph" in opaque(t) and not t.errors


def test_trace_started_in_static_mode():
    relu = F.relu.__code__
    paddle.enable_static()
    try:
        with trace(level="full", frameworks=["paddle"]) as t:
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                F.relu(paddle.static.data("x", [2, 2]))
            paddle.disable_static()
            F.relu(paddle.ones([1]))
    finally:
        paddle.disable_static()
    assert [c.api for c in t.calls if c.parent < 0] == ["paddle.ones", "paddle.nn.functional.relu"]
    assert F.relu.__code__ is relu


def test_save_and_load_of_a_static_layer(tmp_path):
    layer, x = Block(), paddle.ones([2, 4])
    layer.eval()
    expected = layer(x).numpy()
    with trace(level="full") as t:
        static = paddle.jit.to_static(
            layer, input_spec=[paddle.static.InputSpec([2, 4], "float32")], full_graph=True
        )
        paddle.jit.save(static, str(tmp_path / "m"))
        loaded = paddle.jit.load(str(tmp_path / "m"))
        assert np.allclose(loaded(x).numpy(), expected, atol=1e-6)
    assert not t.errors and "paddle.jit.load" in opaque(t)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_amp(level):
    def run():
        paddle.seed(0)
        layer = paddle.nn.Linear(4, 4)
        with paddle.amp.auto_cast(level=level, dtype="bfloat16"):
            y = layer(paddle.ones([2, 4]))
        scaler = paddle.amp.GradScaler(enable=False)
        scaler.scale(y.sum()).backward()
        return y.astype("float32").numpy(), layer.weight.grad.numpy()

    expected = run()
    with trace(level="full") as t:
        result = run()
    assert all(np.array_equal(a, b) for a, b in zip(result, expected)) and not t.errors


def test_no_grad_hooks_and_inplace():
    layer, x, seen = paddle.nn.Linear(2, 2), paddle.ones([1, 2]), []
    layer.register_forward_post_hook(lambda m, i, o: seen.append(len(i)))
    with trace(level="full") as t, paddle.no_grad():
        y = layer(x)
        F.relu_(y)
        y[0] = 3.0
    assert seen == [1] and y.tolist() == [[3, 3]] and not t.errors
    relu = next(c for c in t.calls if c.api.endswith("relu_"))
    assert relu.inplace
    assert y.stop_gradient


def test_sparse_and_low_precision_tensors_are_safe(run_python):
    run_python("""
        import paddle
        from optrace.trace.session import trace
        with trace(level="full") as t:
            s = paddle.ones([2, 2]).to_sparse_coo(2)
            paddle.sparse.add(s, s).to_dense()
            paddle.sparse.nn.functional.relu(s)
            paddle.ones([2]).astype("bfloat16") + 1
            paddle.ones([2]).astype("float8_e4m3fn").astype("float32")
            paddle.empty([0]).sum()
        assert not t.errors, t.errors
        value = [t.value(c.outputs) for c in t.calls if c.outputs is not None and getattr(c.outputs, "dtype", "") == "bfloat16"]
        assert value and float(value[0][0]) == 1.0
    """)
