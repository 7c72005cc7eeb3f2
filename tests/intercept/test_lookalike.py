"""Patched functions look, compare, pickle and copy as the functions they stand for."""

import copy
import functools
import inspect
import pickle

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F, PF = torch.nn.functional, paddle.nn.functional

FUNCTIONS = {
    "F.gelu": (lambda: F.gelu),
    "F.relu": (lambda: F.relu),
    "F.linear": (lambda: F.linear),
    "torch.ones": (lambda: torch.ones),
    "torch.from_numpy": (lambda: torch.from_numpy),
    "paddle.linalg.matmul": (lambda: paddle.linalg.matmul),
    "torch.relu": (lambda: torch.relu),
    "torch.einsum": (lambda: torch.einsum),
    "torch.linalg.inv": (lambda: torch.linalg.inv),
    "Tensor.add": (lambda: torch.Tensor.add),
    "Tensor.__add__": (lambda: torch.Tensor.__add__),
    "Tensor.split": (lambda: torch.Tensor.split),
    "Tensor.__getitem__": (lambda: torch.Tensor.__getitem__),
    "Tensor.T": (lambda: torch.Tensor.T),
    "Module.__call__": (lambda: torch.nn.Module.__call__),
    "paddle.relu": (lambda: PF.relu),
    "paddle.add": (lambda: paddle.add),
    "paddle.matmul": (lambda: paddle.matmul),
    "paddle.Tensor.add": (lambda: paddle.Tensor.add),
    "paddle.Tensor.__add__": (lambda: paddle.Tensor.__add__),
    "paddle.Tensor.clone": (lambda: paddle.Tensor.clone),
    "paddle.Tensor.T": (lambda: paddle.Tensor.T),
    "Layer.__call__": (lambda: paddle.nn.Layer.__call__),
}
# The few builtins that nothing below sees are wrapt wrappers in their namespace: equal, but another object.
WRAPPED = {"torch.from_numpy", "paddle.linalg.matmul"}


def look(function):
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError) as error:
        signature = type(error)
    return (
        signature,
        getattr(function, "__name__", None),
        getattr(function, "__qualname__", None),
        getattr(function, "__module__", None),
        function.__doc__,
        callable(function),
        inspect.isfunction(function),
        inspect.isroutine(function),
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_looks_the_same(name):
    get = FUNCTIONS[name]
    before, function = look(get()), get()
    with trace(level="meta"):
        assert look(get()) == before
        assert get() == function and hash(get()) == hash(function)
        assert {function: 1}[get()] == 1
        if name not in WRAPPED:
            assert get() is function


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.endswith(".T")])
def test_pickles_and_copies(name):
    get = FUNCTIONS[name]
    function = get()
    try:
        expected = pickle.dumps(function)
    except Exception:
        pytest.skip("can't be pickled without a trace either")
    with trace(level="meta"):
        dumped = pickle.dumps(get())
        assert pickle.loads(dumped) == function
        assert pickle.loads(expected) == function
        assert copy.copy(get()) == function
        assert copy.deepcopy(get()) == function
        assert copy.deepcopy({"act": get()})["act"] == function
    assert pickle.loads(dumped) is function


def test_functools_over_patched_functions():
    def user(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    with trace(level="meta") as t:
        for function in (F.gelu, torch.relu, PF.gelu):
            wrapped, partial = user(function), functools.partial(function)
            x = torch.ones(2) if "torch" in str(function.__module__ or "torch") else paddle.ones([2])
            assert (wrapped(x) == partial(x)).all()
            assert pickle.loads(pickle.dumps(partial))(x).shape == x.shape
    assert not t.errors
    assert "optrace" not in str(inspect.signature(wrapped))


@pytest.mark.parametrize(
    "make", [lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())], ids=["torch"]
)
def test_torch_models_copy_and_pickle(make, tmp_path):
    model = make()
    model.act = torch.relu  # a builtin, taken before the trace
    x = torch.ones(1, 2)
    before = pickle.dumps(model)
    with trace(level="full") as t:
        expected = model(x)
        assert pickle.dumps(model) == before
        assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)
        twin = copy.deepcopy(model)
        assert list(twin.state_dict()) == list(model.state_dict())
        for p in twin.parameters():
            p.data.zero_()
        assert not twin(x).any(), "a copy runs with its own weights"
        torch.save(model.state_dict(), tmp_path / "m.pt")
        torch.load(tmp_path / "m.pt")
        model.taken = torch.tanh  # a builtin, taken during the trace
        assert pickle.loads(pickle.dumps(model)).taken == torch.tanh
    assert pickle.loads(pickle.dumps(model)).taken is torch.tanh
    assert not t.errors


def test_paddle_models_copy(tmp_path):
    model = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.GELU())
    x = paddle.ones([1, 2])
    with trace(level="full") as t:
        model(x)
        twin = copy.deepcopy(model)
        assert list(twin.state_dict()) == list(model.state_dict())
        for p in twin.parameters():
            p.set_value(paddle.zeros_like(p))
        assert not twin(x).any()
        paddle.save(model.state_dict(), str(tmp_path / "m.pdparams"))
        paddle.load(str(tmp_path / "m.pdparams"))
    assert not t.errors


def test_tensors_copy_and_pickle():
    x = torch.randn(2, 2, requires_grad=True)
    y = paddle.randn([2, 2])
    with trace(level="full") as t:
        assert torch.equal(pickle.loads(pickle.dumps(x)), x)
        assert torch.equal(copy.deepcopy(x), x)
        assert torch.equal(copy.copy(x), x)
        assert (copy.deepcopy(y) == y).all()
        assert pickle.loads(pickle.dumps(x.add))(1).shape == (2, 2)
    assert not t.errors


def test_nothing_is_stored_on_the_programs_objects():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    layer, y = paddle.nn.Linear(2, 2), paddle.ones([1, 2])
    before = [dict(vars(o)) for o in (model, x, layer)]
    with trace(level="full"):
        model(x), layer(y)
    assert [list(vars(o)) for o in (model, x, layer)] == [list(b) for b in before]
    assert model.forward.__func__ is torch.nn.Linear.forward


def test_identity_decides_as_without_a_trace():
    """torch's own layers ask ``activation is F.gelu``."""
    early = F.gelu
    with trace(level="meta"):
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, activation=early)
    assert layer.activation_relu_or_gelu == 2


def test_fused_paths_are_taken_as_without_a_trace():
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        expected = layer(x)
        with trace(level="meta") as t:
            result = layer(x)
    assert torch.equal(result, expected)
    assert [c.api for c in t.calls] == ["torch._transformer_encoder_layer_fwd"]
