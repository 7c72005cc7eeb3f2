"""Compiled, scripted and exported code runs as without a trace, and the trace names it."""

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.pool = torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.MaxPool1d(2)

    def forward(self, x):
        h = self.act(self.first(x))
        return F.relu(torch.tanh(self.pool(h))[..., :1]) + h.mT.sum() + F.softmax(h, -1).mean()


def opaque(t):
    return list(t.meta.get("opaque", {}))


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_before_the_trace(backend):
    model, x = Block(), torch.randn(2, 4)
    compiled = torch.compile(model, backend=backend)
    expected = compiled(x)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with trace(level="full") as t:
        assert torch.equal(compiled(x), expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before, "nothing is compiled again"
    assert len(opaque(t)) == 1 and opaque(t)[0].startswith("torch.compile: ") and "forward" in opaque(t)[0]
    assert torch.equal(compiled(x), expected)
    assert not t.errors


def test_compiled_in_the_trace():
    model, x = Block(), torch.randn(2, 4)
    with trace(level="full") as t:
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        inside = compiled(x)
        again = compiled(x)
        eager = model(x)
    assert torch.equal(inside, compiled(x)) and torch.equal(inside, again) and torch.equal(inside, eager)
    assert next(iter(t.meta["opaque"].values())) == 2
    assert "torch.nn.functional.softmax" in [c.api for c in t.calls], "the eager run is recorded"
    assert not t.errors


def test_a_compiled_function_with_a_changing_mode_around():
    from torch.overrides import TorchFunctionMode

    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    f = torch.compile(lambda x: torch.relu(x).view(-1) + 1, backend="eager")
    with trace(level="meta") as t:
        for _ in range(3):
            assert f(torch.ones(3)).tolist() == [2, 2, 2]
        with Counting():
            torch.relu(torch.ones(2))
    assert "torch.relu" in [c.api for c in t.calls]
    assert any("torch.compile" in name for name in opaque(t))
    assert not t.errors


def test_compile_of_a_module_in_place_and_of_a_decorated_function():
    @torch.compile(backend="eager")
    def fn(x):
        return F.gelu(x) * 2

    model, x = Block(), torch.randn(2, 4)
    model.compile(backend="eager")
    expected = fn(x), model(x)
    with trace(level="meta") as t:
        assert torch.equal(fn(x), expected[0]) and torch.equal(model(x), expected[1])
        torch.relu(x)
    assert len(opaque(t)) == 2 and [c.api for c in t.calls if c.parent < 0][-1] == "torch.relu"


def test_a_forward_replaced_on_the_instance_of_a_compiled_model():
    model = torch.nn.Linear(1, 1)

    @torch.compile(backend="eager")
    def fn(m, x):
        return m(x)

    model.forward = lambda z: z + 10
    expected = fn(model, torch.ones(1))
    with trace(level="meta") as t:
        assert torch.equal(fn(model, torch.ones(1)), expected)
    assert opaque(t)


def test_exceptions_leave_a_compiled_region_as_it_was():
    @torch.compile(backend="eager")
    def fn(x):
        return x @ x

    with trace(level="meta") as t:
        with pytest.raises(Exception, match=r"."):
            fn(torch.ones(2, 3))
        torch.relu(torch.ones(1))
    assert t.calls[-1].api == "torch.relu"


@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2, 4))], ids=["script", "trace"]
)
def test_torchscript(make):
    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.MaxPool1d(2))

        def forward(self, x):
            return F.gelu(self.inner(x)) + torch.tanh(x).mean()

    model, x = Small(), torch.randn(2, 4)
    expected = model(x)
    before = make(model)
    with trace(level="full") as t:
        inside = make(model)
        assert torch.equal(inside(x), expected) and torch.equal(before(x), expected)
    assert torch.equal(make(model)(x), expected)
    assert torch.equal(torch.jit.script(torch.nn.ReLU())(x), x.relu())
    assert any(name.startswith("torch.jit") for name in opaque(t))
    assert not [c for c in t.calls if c.parent < 0 and "linear" in c.api]
    assert not t.errors


def test_script_sees_the_programs_local_names():
    def helper(x):
        return x * 3

    def outer(x: torch.Tensor) -> torch.Tensor:
        return helper(F.relu(x)) + torch.tanh(x)

    x = torch.randn(3)
    with trace(level="meta"):
        inside = torch.jit.script(outer)
    assert torch.equal(inside(x), outer(x))


def test_the_table_of_builtins_is_not_poisoned(run_python):
    """In a process where scripting happens for the first time while a trace runs, and after it."""
    run_python("""
        import torch, torch.nn.functional as F
        from optrace.trace.session import trace
        with trace(level="meta"):
            torch.jit.script(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.MaxPool1d(2)))
            torch.jit._builtins._get_builtin_table()
        f = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.AdaptiveAvgPool1d(1)))
        f(torch.ones(1, 4))
        for builtin in (torch.relu, torch.Tensor.add, F.linear):
            assert torch.jit._builtins._find_builtin(torch.tanh) == "aten::tanh"
    """)


def test_fx():
    model, x = Block(), torch.randn(2, 4)
    plain = torch.fx.symbolic_trace(model)
    with trace(level="full") as t:
        graph = torch.fx.symbolic_trace(model)
        assert torch.equal(graph(x), model(x))
    assert graph.code == plain.code
    assert "torch.fx: Block" in opaque(t)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))
    assert not t.errors


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    model, x = Block(), torch.randn(2, 4)
    expected = torch.export.export(model, (x,), strict=strict)
    with trace(level="full") as t:
        program = torch.export.export(model, (x,), strict=strict)
        assert torch.equal(program.module()(x), model(x))
    assert str(program.graph) == str(expected.graph)
    assert any(name.startswith("torch.export") for name in opaque(t))
    assert not t.errors


def test_make_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    def fn(x):
        return F.gelu(x).T + torch.tanh(x).sum()

    x = torch.randn(2, 2)
    expected = make_fx(fn)(x).code
    with trace(level="full") as t:
        assert make_fx(fn)(x).code == expected
    assert not t.errors
