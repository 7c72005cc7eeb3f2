"""Whatever goes wrong in the tracer, the program goes on; whatever the program does, the tracer stands it."""

import threading
import warnings
from pathlib import Path

import pytest

import optrace
from optrace.trace.session import trace
from optrace.trace.trees import Trees

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F = torch.nn.functional


def apis(t):
    return [c.api for c in t.calls]


@pytest.mark.parametrize("method", ["record", "_tensor", "changed"])
def test_an_error_of_ours_is_counted(monkeypatch, method):
    def broken(self, *args):
        raise LookupError("ours")

    monkeypatch.setattr(Trees, method, broken)
    with trace(level="full") as t:
        assert F.relu(torch.ones(2))[0].item() == 1
        assert paddle.nn.functional.relu(paddle.ones([2]))[0].item() == 1
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert any("LookupError: ours" in text for text in t.errors)


def test_our_own_tensor_work_is_not_recorded():
    with trace(level="full") as t:
        torch.ones(3)
        paddle.ones([3])
    assert [c.api for c in t.calls if c.parent < 0] == ["torch.ones", "paddle.ones"]


def test_nested_traces_see_the_same():
    with trace(level="meta") as outer:
        torch.ones(1)
        with trace(level="full") as inner:
            model = torch.nn.Linear(2, 2)
            model(torch.ones(1, 2))[0]
            paddle.nn.functional.relu(paddle.ones([1]))
        torch.relu(torch.ones(1))
    assert apis(outer) == ["torch.ones", *apis(inner), "torch.ones", "torch.relu"]
    assert [c.parent < 0 for c in outer.calls[1:-2]] == [c.parent < 0 for c in inner.calls]
    assert not outer.errors and not inner.errors


def test_traces_that_end_out_of_order():
    first, second = trace(level="meta"), trace(level="meta", frameworks=["torch"])
    a, b = first.__enter__(), second.__enter__()
    torch.ones(1)
    first.__exit__(None, None, None)
    torch.relu(torch.ones(1))
    second.__exit__(None, None, None)
    torch.tanh(torch.ones(1))
    assert apis(a) == ["torch.ones"] and apis(b) == ["torch.ones", "torch.ones", "torch.relu"]


def test_a_trace_started_inside_a_forward():
    inside = []

    class Model(torch.nn.Module):
        def forward(self, x):
            with trace(level="full") as t:
                y = F.gelu(x)[0]
            inside.append(t)
            return y

    with trace(level="meta") as outer:
        Model()(torch.ones(2))
    Model()(torch.ones(2))
    assert apis(inside[0]) == apis(inside[1]) == ["torch.nn.functional.gelu", "torch.Tensor.__getitem__"]
    assert apis(outer) == ["torch.ones", *apis(inside[0])]


def test_generators_left_half_way():
    def batches():
        with trace(level="meta") as t:
            for _ in range(3):
                yield torch.ones(1), t

    source = batches()
    _, t = next(source)
    torch.relu(torch.ones(1))
    source.close()
    torch.tanh(torch.ones(1))
    assert apis(t) == ["torch.ones", "torch.ones", "torch.relu"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_anywhere(monkeypatch, error):
    """Also one that arrives while the recorder is at work."""
    original, count = Trees._tensor, [0]

    def interrupted(self, *args):
        count[0] += 1
        if count[0] == 3:
            raise error
        return original(self, *args)

    monkeypatch.setattr(Trees, "_tensor", interrupted)
    with trace(level="meta") as t:
        with pytest.raises(error):
            F.gelu(torch.ones(2))[0]
        torch.relu(torch.ones(2))[0]
    assert apis(t)[-3:] == ["torch.ones", "torch.relu", "torch.Tensor.__getitem__"]
    assert all(c.parent < 0 for c in t.calls[-3:])


def test_interrupt_inside_a_module():
    class Model(torch.nn.Module):
        def forward(self, x):
            torch.relu(x)
            raise KeyboardInterrupt

    with trace(level="meta") as t:
        with pytest.raises(KeyboardInterrupt):
            torch.nn.Sequential(Model())(torch.ones(1))
        torch.tanh(torch.ones(1))
    assert t.calls[1].module == "0" and t.calls[-1].module is None


class Broken:
    """Everything one can ask of it raises."""

    def __repr__(self):
        raise RuntimeError("repr")

    __str__ = __len__ = __iter__ = __bool__ = __hash__ = __repr__

    def __eq__(self, other):
        raise RuntimeError("eq")


class BrokenList(list):
    def __iter__(self):
        raise RuntimeError("iter")

    def __len__(self):
        raise RuntimeError("len")


def strange():
    cycle = {"x": 1}
    cycle["self"] = cycle
    wide = [1]
    wide.extend([wide] * 50)
    deep = []
    for _ in range(10_000):
        deep = [deep]
    return {
        "cycle": cycle,
        "wide cycle": wide,
        "deep": deep,
        "broken": Broken(),
        "broken list": BrokenList([1]),
        "broken inside": {"a": [Broken()], "b": BrokenList()},
        "huge int": 10**400,
        "long": list(range(100_000)),
        "function": lambda x: x,
        "type": Broken,
        "bytes": b"x" * 1000,
        "set": {1, 2},
        "module": torch.nn.Linear(2, 2),
        "generator": (i for i in range(3)),
    }


@pytest.mark.parametrize("name", strange())
def test_strange_arguments(name):
    """A function that takes anything: a wrapper over an op, as custom ops have them."""
    value = strange()[name]
    with trace(level="full") as t:
        with pytest.raises(Exception, match=r".") as traced:
            F.relu(torch.ones(2), value, value)
        with pytest.raises(Exception, match=r"."):
            paddle.nn.functional.relu(paddle.ones([2]), option=value)
        torch.relu(torch.ones(1))
    assert traced.type is TypeError
    calls = [c for c in t.calls if c.api.endswith("functional.relu")]
    assert len(calls) == 2 and len(calls[0].positional) == 3, "recorded, with a placeholder"
    assert not t.errors
    assert t.calls[-1].api == "torch.relu"


def test_tensors_are_never_formatted():
    class Loud(torch.Tensor):
        def __repr__(self):
            raise AssertionError("formatted")

    with trace(level="full") as t:
        x = torch.ones(2).as_subclass(Loud)
        F.gelu(x)
        with pytest.raises(TypeError):
            torch.relu(x, x, x)
        torch.vmap(torch.sin)(torch.ones(2))
    assert not t.errors


def test_printing_a_tensor_is_no_call():
    with trace(level="meta") as t:
        str(torch.ones(2)), repr(paddle.ones([2])), f"{torch.ones(1)}"
    assert {c.api.split(".")[-1] for c in t.calls if c.parent < 0} == {"ones"}


def test_attribute_reads_are_no_calls():
    x = torch.ones(2)
    y = paddle.ones([2])
    with trace(level="meta") as t:
        x.shape, x.requires_grad, len(x), x.size(), x.dtype, x.is_leaf, x.grad, x.device, x.numel()
        y.shape, y.stop_gradient, len(y), y.ndim, y.dtype, y.place, y.numel
        x + 1
    assert apis(t) == ["torch.Tensor.__add__"]


def test_recording_costs_no_recursion_depth_to_speak_of():
    def deep(n):
        return torch.relu(torch.ones(1)) if not n else deep(n - 1)

    with trace(level="meta"):
        deep(900)


def test_many_threads_start_and_stop_traces():
    failures = []

    def work():
        try:
            for _ in range(4):
                with trace(level="meta", frameworks=["torch"]) as t:
                    F.relu(torch.ones(1))
                assert "torch.nn.functional.relu" in apis(t)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("strict", [False, True])
def test_errors_of_ours_are_told_once_at_the_end(monkeypatch, capsys, strict):
    """Also where the program turns warnings into errors."""
    monkeypatch.setattr(Trees, "_tensor", lambda *args: 1 / 0)
    with warnings.catch_warnings(record=not strict) as said:
        warnings.simplefilter("error" if strict else "always")
        with trace(level="meta"):
            for _ in range(5):
                F.relu(torch.ones(2))
    told = [capsys.readouterr().err] if strict else [str(w.message) for w in said]
    assert len(told) == 1
    assert "ZeroDivisionError" in told[0] and "errors inside the tracer" in told[0] and "doctor" in told[0]


def test_a_models_error_names_its_own_line():
    class Model(torch.nn.Module):
        def forward(self, x):
            torch.relu(x)
            return self.helper(x)

        def helper(self, x):
            return [][1]

    line = Model.helper.__code__.co_firstlineno + 1
    with pytest.raises(
        optrace.ModelError, match=rf"IndexError at .*{Path(__file__).name}:{line} in .*helper"
    ):
        optrace.auto_diff(Model(), Model(), {"x": torch.ones(1)})
    with pytest.raises(optrace.ModelError, match=r"RuntimeError in torch.nn.functional.linear"):
        optrace.auto_diff(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), {"input": torch.ones(1, 3)})
