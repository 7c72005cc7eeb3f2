"""Function transforms, tensor subclasses, modes, fake and meta tensors, autocast, checkpointing."""

from typing import ClassVar

import pytest

from optrace.trace.records import TensorRef, tensors_in
from optrace.trace.session import trace

torch = pytest.importorskip("torch")
F = torch.nn.functional


def apis(t):
    return [c.api for c in t.calls]


def top(t):
    return [c.api for c in t.calls if c.parent < 0]


@pytest.mark.parametrize("level", ["meta", "stats", "full"])
def test_vmap_grad_jvp(level):
    x = torch.randn(2, 3)
    work = {
        "vmap": lambda: torch.vmap(lambda v: v.sin()[0] + F.gelu(v).sum())(x),
        "grad": lambda: torch.func.grad(lambda v: (F.gelu(v) * v[0]).sum())(x),
        "jvp": lambda: torch.func.jvp(lambda v: torch.tanh(v).T, (x,), (torch.ones_like(x),))[1],
        "vjp": lambda: torch.func.vjp(torch.tanh, x)[1](torch.ones_like(x))[0],
        "jacrev": lambda: torch.func.jacrev(lambda v: v.exp().sum(0))(x),
        "hessian": lambda: torch.func.hessian(lambda v: (v**3).sum())(x[0]),
        "vmap of grad": lambda: torch.vmap(torch.func.grad(lambda v: (v * v).sum()))(x),
    }
    for name, run in work.items():
        expected = run()
        with trace(level=level) as t:
            result = run()
        assert torch.equal(result, expected), name
        assert not t.errors, (name, t.errors)
        assert t.calls, name


def test_functional_call():
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU()), torch.randn(2, 3)
    new = {k: torch.zeros_like(v) for k, v in model.state_dict().items()}
    with trace(level="full") as t:
        assert not torch.func.functional_call(model, new, (x,)).any()
    assert "torch.nn.functional.linear" in apis(t) and not t.errors


def test_autocast():
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).softmax(-1)

    expected = run()
    with trace(level="full") as t:
        result = run()
    assert result.dtype == expected.dtype and torch.equal(result, expected) and not t.errors
    linear = next(c for c in t.calls if c.api.endswith("linear"))
    assert linear.outputs.dtype == "bfloat16"


class Logged(torch.Tensor):
    """Notes what it is asked for and answers as torch would."""

    seen: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Plain(torch.Tensor):
    pass


def test_subclasses_are_asked_the_same():
    def run():
        Logged.seen.clear()
        x = torch.ones(2, 3).as_subclass(Logged)
        y = F.gelu(x) + torch.tanh(x)
        z = y[0].T @ F.softmax(y, -1).sum(0)
        x.add(1), torch.cat([x, x]), x.shape
        return z, list(Logged.seen)

    expected, asked = run()
    with trace(level="full") as t:
        result, traced = run()
    assert type(result) is type(expected) is Logged and torch.equal(result, expected)
    assert [f.__name__ for f in traced] == [f.__name__ for f in asked]
    assert all(a == b for a, b in zip(traced, asked))
    assert {"torch.nn.functional.gelu", "torch.tanh", "torch.Tensor.__getitem__", "torch.cat"} <= set(apis(t))
    assert not t.errors


def test_a_plain_subclass():
    with trace(level="full") as t:
        result = F.relu(torch.ones(2).as_subclass(Plain))[0]
    assert type(result) is Plain and not t.errors
    assert top(t)[-2:] == ["torch.nn.functional.relu", "torch.Tensor.__getitem__"]


def test_what_a_subclass_calls_inside_is_seen():
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return torch.mul(func(*args, **(kwargs or {})), 2)

    x = torch.ones(2).as_subclass(Doubling)
    expected = torch.add(x, x).tolist()
    with trace(level="full") as t:
        result = torch.add(x, x)
    assert result.tolist() == expected and "torch.mul" in apis(t) and not t.errors


def test_objects_with_torch_function():
    class Duck:
        def __init__(self):
            self.asked = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func.__name__, len(args)

        __torch_function__ = classmethod(__torch_function__)

    duck = Duck()

    def run():
        return torch.add(duck, 1), F.gelu(duck), torch.stack([duck, duck]), F.cross_entropy(duck, 3)

    expected = run()
    with trace(level="full") as t:
        assert run() == expected
    assert not t.errors


def test_not_implemented_gives_the_same_error():
    class No(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.ones(2).as_subclass(No)
    with pytest.raises(TypeError) as plain:
        torch.add(x, x)
    with trace(level="meta"), pytest.raises(TypeError) as traced:
        torch.add(x, x)
    assert str(traced.value).split(":")[0] == str(plain.value).split(":")[0]


@pytest.mark.parametrize("outside", [True, False])
def test_other_modes(outside):
    from torch.overrides import TorchFunctionMode

    class Other(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def work():
        x = torch.ones(2, 3)
        return F.gelu(x)[0] + F.multi_head_attention_forward.__name__.__len__() + torch.tanh(x).T.sum()

    plain = Other()
    with plain:
        expected = work()
    other = Other()
    if outside:
        with other, trace(level="meta") as t:
            result = work()
    else:
        with trace(level="meta") as t, other:
            result = work()
    assert torch.equal(result, expected)
    assert [s for s in other.seen if s != "__get__"] == [s for s in plain.seen if s != "__get__"]
    assert {"torch.nn.functional.gelu", "torch.tanh", "torch.Tensor.__getitem__"} <= set(apis(t))
    assert not t.errors


def test_default_device_mode():
    with trace(level="full") as t, torch.device("meta"):
        model = torch.nn.Linear(3, 3)
        y = model(torch.ones(2, 3))
    assert y.is_meta and model.weight.is_meta
    assert "torch.nn.functional.linear" in apis(t) and not t.errors


def test_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), trace(level="full") as t:
        y = F.gelu(torch.ones(2, 3)) @ torch.ones(3, 1)
        repr(y)
    assert tuple(y.shape) == (2, 1)
    with trace(level="full") as u:
        z = F.gelu(torch.ones(2, 3, device="meta")).sum()
    assert z.is_meta
    assert not t.errors and not u.errors
    ref = next(c for c in u.calls if c.api.endswith("gelu")).outputs
    assert isinstance(ref, TensorRef) and ref.device == "meta" and u.value(ref) is None


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5), torch.nn.GELU())
    x = torch.randn(2, 3, requires_grad=True)

    def run():
        torch.manual_seed(1)
        layer.zero_grad()
        x.grad = None
        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
        return [x.grad.clone()] + [p.grad.clone() for p in layer.parameters()]

    expected = run()
    with trace(level="full") as t:
        result = run()
    assert all(torch.equal(a, b) for a, b in zip(result, expected))
    phases = [c.phase for c in t.calls if c.api == "torch.nn.functional.linear"]
    assert phases == ["forward", "recompute"] and not t.errors


def test_saved_tensor_hooks_and_module_hooks():
    layer, x, seen = torch.nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True), []
    layer.register_forward_hook(lambda m, i, o: seen.append("forward"))
    layer.register_full_backward_hook(lambda m, i, o: seen.append("backward"))
    with (
        trace(level="full") as t,
        torch.autograd.graph.saved_tensors_hooks(lambda v: (seen.append("pack"), v)[1], lambda v: v),
    ):
        layer(x).sum().backward()
    plain = len(seen)
    seen.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda v: (seen.append("pack"), v)[1], lambda v: v):
        layer(x).sum().backward()
    assert len(seen) == plain and not t.errors


def test_exotic_tensors_do_not_end_the_run():
    with trace(level="full") as t:
        torch.eye(3).to_sparse() * 2
        torch.ones(2, dtype=torch.complex64).conj() * 2
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8).dequantize()
        torch.ones(2).to(torch.float8_e4m3fn).float()
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2
        torch.ones(2).bfloat16() + 1
        torch.empty(0).sum()
        F.relu(torch.nn.parameter.UninitializedParameter) if False else None
    assert not t.errors, t.errors
    assert all(t.value(r) is not None for c in t.calls for r in tensors_in(c.outputs))


def test_inference_mode_and_deterministic_algorithms():
    with torch.inference_mode(), trace(level="full") as t:
        y = torch.ones(2).add_(1)
    assert y.is_inference() and not t.errors
