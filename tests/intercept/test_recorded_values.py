"""What a record holds of each tensor: values of that moment, layout, names; and what can't be read has a reason."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import optrace
from optrace.trace.records import Opaque, TensorRef, tensors_in
from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F = torch.nn.functional
PF = paddle.nn.functional


def last(t, name):
    return next(c for c in reversed(t.calls) if name in c.api and c.parent < 0)


def test_strides_offset_and_storage_are_kept():
    with trace(level="meta") as t:
        a = torch.arange(6.0).reshape(2, 3)
        b = paddle.arange(6, dtype="float32").reshape([2, 3])
        torch.relu(a.t()), torch.relu(a[1]), torch.relu(a.t().contiguous())
        PF.relu(b.contiguous())
    seen = [c.positional[0] for c in t.calls if c.api == "torch.relu"]
    assert [(r.strides, r.offset) for r in seen] == [((1, 3), 0), ((1,), 3), ((2, 1), 0)]
    assert seen[0].storage == seen[1].storage != seen[2].storage
    assert last(t, "functional.relu").positional[0].strides == (3, 1)


def test_layout_is_no_difference():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with trace(level="full") as base:
        torch.relu(torch.tensor(x) * 2).t() + 1
    with trace(level="full") as raw:
        PF.relu(paddle.to_tensor(x) * 2).transpose([1, 0]).contiguous() + 1
    assert optrace.diff(base, raw)


@pytest.mark.parametrize("level", ["full", "stats"])
def test_values_are_those_of_the_moment(level):
    with trace(level=level) as t:
        y = torch.tensor([-1.0, 2.0]) * 1
        y.relu_()
        z = y.numpy()
        y.add_(5)
        v = paddle.to_tensor([-1.0, 2.0]) * 1
        PF.relu_(v)
        v.add_(paddle.full([2], 5.0))
    assert z.tolist() == [5.0, 7.0]
    for framework in ("torch", "paddle"):
        calls = [c for c in t.calls if c.framework == framework and c.parent < 0]
        mul = next(c for c in calls if "mul" in c.api)
        relu = next(c for c in calls if "relu_" in c.api)
        assert relu.inplace and not mul.inplace
        means = [t.stats(r).mean for r in (mul.outputs, relu.positional[0], relu.outputs)]
        assert means == [0.5, 0.5, 1.0]


def test_keyword_and_positional_calls_have_the_same_names():
    x, w = torch.ones(2, 3), torch.ones(4, 3)
    px, pw = paddle.ones([2, 3]), paddle.ones([3, 4])
    with trace(level="meta") as t:
        F.linear(input=x, weight=w)
        F.linear(x, w)
        torch.nn.Linear(3, 4)(input=x)
        PF.linear(x=px, weight=pw)
        PF.linear(px, pw)
        paddle.nn.Linear(3, 4)(input=px)
    for framework in ("torch", "paddle"):
        calls = [c for c in t.calls if c.api == f"{framework}.nn.functional.linear"]
        assert len(calls) == 3
        assert list(calls[0].args)[:2] == list(calls[1].args)[:2] == list(calls[2].args)[:2]
        assert all(len(tensors_in(list(c.args.values()))) >= 2 for c in calls)


LOW = ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("name", LOW)
def test_low_precision_values_are_numbers(name):
    with trace(level="full") as t:
        a = torch.tensor([1.5, -0.25]).to(getattr(torch, name))
        b = paddle.to_tensor([1.5, -0.25]).astype(name)
    assert a is not None and b is not None
    for call in (last(t, "torch.Tensor.to"), last(t, "astype")):
        (ref,) = tensors_in(call.outputs)
        value = t.value(ref)
        assert ref.dtype == name and value.astype(np.float64).tolist() == [1.5, -0.25]


def exotic():
    yield "sparse", lambda: torch.eye(3).to_sparse()
    yield "csr", lambda: torch.eye(3).to_sparse_csr()
    yield "conjugate", lambda: torch.tensor([1 + 2j]).conj()
    yield "negative view", lambda: torch.tensor([1 + 2j]).conj().imag
    yield "nested", lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yield "meta", lambda: torch.ones(2, device="meta")
    yield "quantised", lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    yield "paddle sparse", lambda: paddle.ones([2, 2]).to_sparse_coo(2)
    yield "paddle csr", lambda: paddle.ones([2, 2]).to_sparse_csr()
    yield "paddle complex", lambda: paddle.complex(paddle.ones([2]), paddle.ones([2])).conj()
    yield "paddle empty", lambda: paddle.zeros([0, 3])
    yield "zero size", lambda: torch.zeros(0, 3)
    yield "scalar", lambda: torch.tensor(True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "make"), list(exotic()), ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("level", ["full", "stats"])
def test_one_exotic_tensor_does_not_end_the_run(name, make, level):
    with trace(level=level) as t:
        made = make()
        torch.relu(torch.ones(1))
    assert made is not None and not t.errors, t.errors
    assert t.calls[-1].api == "torch.relu"
    for call in t.calls:
        for item in [call.outputs]:
            assert isinstance(item, (TensorRef, Opaque, list, tuple)) or item is None


def test_conjugates_are_resolved():
    with trace(level="full") as t:
        torch.resolve_conj(torch.tensor([1 + 2j]).conj()) * 1
    assert t.value(t.calls[-1].outputs).tolist() == [1 - 2j]


def test_tensors_die_when_the_program_lets_them_go():
    """At every level a trace holds copies, not the program's tensors."""
    for level in ("meta", "stats", "full"):
        with trace(level=level):
            a, b = torch.ones(100), paddle.ones([100])
            c = torch.relu(a)
            model = torch.nn.Linear(2, 2)
            model(torch.ones(1, 2)).sum().backward()
            dead = [weakref.ref(o) for o in (a, c, model, model.weight)]
            died = []
            weakref.finalize(b, died.append, True)
            del a, b, c, model
            gc.collect()
            assert [r() for r in dead] == [None] * 4, level
            assert died, level


def test_a_loop_keeps_no_memory_per_step(tmp_path):
    """Written to disk, values of steps gone by are in memory no more."""
    with trace(level="full", out=tmp_path / "t") as t:
        for _ in range(20):
            torch.relu(torch.randn(1 << 16))
        assert not t.values


def test_profilers_and_debuggers_of_the_program_go_on():
    import cProfile

    lines = []

    def tracer(frame, event, arg):
        lines.append(event)
        return tracer

    before = (
        sys.gettrace(),
        sys.getprofile(),
        threading.gettrace() if hasattr(threading, "gettrace") else None,
    )
    with trace(level="meta"):
        profile = cProfile.Profile()
        profile.enable()
        F.gelu(torch.ones(2))
        profile.disable()
        sys.settrace(tracer)
        F.softmax(torch.ones(2), 0)
        sys.settrace(before[0])
    assert lines and profile.getstats()
    assert (sys.gettrace(), sys.getprofile()) == before[:2]


def test_subclass_hooks_run_as_ever():
    made = []

    class Base(torch.nn.Module):
        def __init_subclass__(cls, **kwargs):
            made.append((cls.__name__, kwargs))
            super().__init_subclass__()

    with trace(level="meta") as t:

        class Child(Base, flavour="x"):
            def forward(self, x):
                return torch.relu(x)

        Child()(torch.ones(1))
    assert made == [("Child", {"flavour": "x"})]
    assert last(t, "relu").module_type == "Child"


def test_inference_mode_and_wrappers():
    class Parallel(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

    model = Parallel(torch.nn.Linear(2, 2))
    with trace(level="full") as t, torch.inference_mode():
        y = torch.nn.DataParallel(model)(torch.ones(1, 2)) * 2
    assert y.is_inference() and not t.errors
    assert last(t, "linear").module in ("module.module", "module")


EARLY_THREAD = """
import queue, threading, torch, optrace
todo, done = queue.Queue(), queue.Queue()
def work():
    model = torch.nn.Linear(2, 2)
    while todo.get():
        done.put(model(torch.ones(1, 2)).sum().item())
thread = threading.Thread(target=work, daemon=True)
thread.start()
with optrace.trace(level="meta") as t:
    todo.put(1); done.get()
todo.put(1); done.get(); todo.put(0); thread.join()
apis = [c.api for c in t.calls]
assert "torch.nn.functional.linear" in apis and "torch.Tensor.sum" in apis, apis
assert not t.errors, t.errors
"""


def test_a_thread_that_ran_before_the_trace():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", EARLY_THREAD], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(paddle, "enable_compat"), reason="this paddle has no compat mode")
def test_paddles_compat_mode():
    code = """
import paddle, optrace
with optrace.trace(level="full") as t:
    paddle.enable_compat()
    x = paddle.ones([2, 3])
    y = paddle.nn.functional.softmax(x, -1) if hasattr(paddle.nn.functional, "softmax") else x
    import torch as seen
    paddle.disable_compat()
    paddle.nn.functional.relu(y)
assert not t.errors, t.errors
assert "paddle.nn.functional.relu" in [c.api for c in t.calls]
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
