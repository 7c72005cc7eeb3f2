"""What a trace says about calls: their tree, data flow, versions, sites, threads, errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import optrace
from optrace.trace.records import tensors_in

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("level", ["meta", "stats", "full"])
def test_levels(level: str) -> None:
    with optrace.trace(level=level) as trace:
        torch.relu(torch.ones(3))
    ref = trace.calls[-1].outputs
    assert (ref.shape, ref.dtype) == ((3,), "float32")
    assert (trace.value(ref) is not None) == (level == "full")
    assert (trace.stats(ref) is not None) == (level != "meta")


def test_results_feed_the_next_call() -> None:
    with optrace.trace() as trace:
        torch.exp(torch.relu(torch.ones(3)))
    relu, exp = trace.calls[-2:]
    assert relu.outputs.key == exp.positional[0].key


@pytest.mark.parametrize("level", ["stats", "full"])
def test_in_place_inputs_are_kept_as_they_were(level: str) -> None:
    x = torch.ones(3)
    with optrace.trace(level=level) as trace:
        x.add_(1)
        x.mul_(3)
    add, mul = trace.calls
    seen = [trace.stats(r).maximum for r in (add.positional[0], add.outputs, mul.positional[0], mul.outputs)]
    assert seen == [1, 2, 2, 6]
    assert add.inplace and [r.key for r in add.mutated] == [add.outputs.key]
    assert add.outputs.uid == add.positional[0].uid and add.outputs.version > add.positional[0].version


def test_the_tree_of_calls() -> None:
    mha = torch.nn.MultiheadAttention(8, 2)
    x = torch.ones(3, 1, 8)
    with optrace.trace() as trace:
        mha(x, x, x)
    outer = next(c for c in trace.calls if c.api.endswith("multi_head_attention_forward"))
    assert outer.parent == -1 and {"torch.nn.functional.linear"} <= {c.api for c in outer.children}
    assert all(c.parent < c.id for c in trace.calls)


def test_sites_and_module_paths() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.ReLU()))
    with optrace.trace() as trace:
        model(torch.ones(2, 3))  # the line
    linear, relu = (next(c for c in trace.calls if c.api.endswith(n)) for n in ("linear", "relu"))
    assert (linear.module, relu.module, relu.module_type) == ("0", "1.0", "ReLU")
    assert linear.site.code.endswith("# the line") and linear.site.file == __file__
    assert {r.path for r in tensors_in(linear.positional)} >= {"0.weight", "0.bias"}


def test_a_call_that_raises_is_kept() -> None:
    with optrace.trace() as trace, pytest.raises(RuntimeError):
        torch.ones(2) @ torch.ones(3)
    assert trace.calls[-1].error.startswith("RuntimeError") and trace.calls[-1].outputs is None


def test_a_description_follows_its_tensor() -> None:
    x = torch.ones(2, 3)
    with optrace.trace(level="meta") as trace:
        torch.relu(x)
        x.requires_grad_()
        torch.relu(x)
    first, last = (c.positional[0] for c in trace.calls if c.api == "torch.relu")
    assert first.uid == last.uid and (first.requires_grad, last.requires_grad) == (False, True)


def test_threads_are_told_apart() -> None:
    together = threading.Barrier(3)  # a number of a thread that has ended is given again

    def work() -> None:
        together.wait()
        for _ in range(50):
            torch.relu(torch.ones(2))
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(3)]
    with optrace.trace() as trace:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    calls = [c for c in trace.calls if c.api == "torch.relu"]
    assert len(calls) == 150 and len({c.thread for c in calls}) == 3 and not trace.errors
    assert [c.id for c in trace.calls] == list(range(len(trace.calls)))


def test_a_trace_in_a_trace_is_recorded_in_both() -> None:
    def relus(trace: Any) -> int:
        return sum(c.api == "torch.relu" for c in trace.calls)

    with optrace.trace() as outer:
        torch.relu(torch.ones(2))
        with optrace.trace(level="full") as inner:
            torch.relu(torch.ones(2))
        torch.relu(torch.ones(2))
    assert (relus(outer), relus(inner)) == (3, 1) and not outer.errors and not inner.errors
    assert np.array_equal(inner.value(inner.calls[-1].outputs), [1, 1])
