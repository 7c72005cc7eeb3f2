"""Threads, asyncio, forked and spawned processes, data loaders."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F = torch.nn.functional


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return F.relu(torch.full((2,), float(i))), i


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_data_loader(context):
    def run():
        torch.manual_seed(0)
        workers = {"num_workers": 2, "multiprocessing_context": context} if context else {}
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, shuffle=True, **workers)
        return [(x, y) for x, y in loader], torch.get_rng_state()

    expected, state = run()
    with trace(level="full") as t:
        batches, after = run()
    assert all(torch.equal(a, b) for p, q in zip(batches, expected) for a, b in zip(p, q))
    assert torch.equal(state, after) and not t.errors
    assert {c.phase for c in t.calls} == {"data"}


class PaddleNumbers(paddle.io.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        import numpy as np

        return np.full((2,), float(i), "float32")


@pytest.mark.parametrize("workers", [0, 2])
def test_paddle_data_loader(workers):
    with trace(level="full") as t:
        loader = paddle.io.DataLoader(PaddleNumbers(), batch_size=2, num_workers=workers)
        batches = [b[0] if isinstance(b, (list, tuple)) else b for b in loader]
        total = sum(float(b.sum()) for b in batches)
    assert total == 12.0 and not t.errors
    assert {c.phase for c in t.calls if not c.api.endswith("sum")} <= {"data", "forward"}


def test_threads_are_recorded_each_with_its_own_tree():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
    model.eval()

    def work(i):
        x = torch.full((1, 4), float(i))
        return model(x)[0, :2]

    expected = [work(i) for i in range(6)]
    with trace(level="full") as t:
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(work, range(6)))
        other = threading.Thread(target=work, args=(1,))
        other.start()
        other.join()
    assert all(torch.equal(a, b) for a, b in zip(results, expected))
    for name in ("torch.full", "torch.nn.functional.linear", "torch.Tensor.__getitem__"):
        assert sum(c.api == name for c in t.calls) == 7, name
    by_id = {c.id: c for c in t.calls}
    assert all(c.parent < 0 or by_id[c.parent].thread == c.thread for c in t.calls)
    assert not t.errors


def test_a_thread_that_was_there_before_is_seen_inside_modules():
    model, go, done, out = torch.nn.Linear(2, 2), threading.Event(), threading.Event(), []

    def work():
        go.wait(30)
        out.append(model(torch.ones(1, 2)))
        done.set()

    other = threading.Thread(target=work)
    other.start()
    with trace(level="meta") as t:
        go.set()
        done.wait(30)
    other.join()
    assert "torch.nn.functional.linear" in [c.api for c in t.calls]


def test_a_trace_in_a_thread_while_another_runs():
    inner = []

    def work():
        with trace(level="full") as u:
            torch.tanh(torch.ones(2))[0]
        inner.append(u)

    with trace(level="meta") as t:
        other = threading.Thread(target=work)
        other.start()
        other.join()
        torch.relu(torch.ones(1))
    assert [c.api for c in inner[0].calls] == ["torch.ones", "torch.tanh", "torch.Tensor.__getitem__"]
    assert [c.api for c in t.calls] == [*(c.api for c in inner[0].calls), "torch.ones", "torch.relu"]


def test_a_trace_ended_by_another_thread():
    tracing = trace(level="meta")
    t = tracing.__enter__()
    torch.ones(1)
    other = threading.Thread(target=tracing.__exit__, args=(None, None, None))
    other.start()
    other.join()
    torch.ones(1)[0]
    assert [c.api for c in t.calls] == ["torch.ones"]
    with trace(level="meta") as u:  # takes the stranded net off this thread
        torch.ones(1)[0]
    assert [c.api for c in u.calls] == ["torch.ones", "torch.Tensor.__getitem__"]


def test_asyncio():
    async def one(i):
        x = torch.full((2,), float(i))
        await asyncio.sleep(0.001)
        return F.gelu(x)[0]

    async def main():
        return await asyncio.gather(*(one(i) for i in range(4)))

    expected = asyncio.run(main())
    with trace(level="full") as t:
        assert torch.equal(torch.stack(asyncio.run(main())), torch.stack(expected))
    assert sum(c.api == "torch.Tensor.__getitem__" for c in t.calls) == 4
    assert all(c.parent < 0 for c in t.calls) and not t.errors


def test_a_forked_child_is_left_alone(tmp_path):
    with trace(level="full", out=tmp_path / "run") as t:
        torch.ones(1)
        child = os.fork()
        if not child:
            try:
                fine = torch.relu(torch.ones(2))[0].item() == 1 and torch.ones.__class__.__name__.startswith(
                    "builtin"
                )
                fine = fine and len(t.calls) == 1
            finally:
                os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        torch.relu(torch.ones(1))
    assert [c.api for c in t.calls] == ["torch.ones", "torch.ones", "torch.relu"]


def test_multiprocessing_in_a_trace(run_python):
    run_python("""
        import multiprocessing, sys
        import torch
        from optrace.trace.session import trace

        def work(f):
            return f(torch.ones(2)).tolist()

        if __name__ == "__main__":
            with trace(level="meta") as t:
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        assert pool.map(work, [torch.tanh, torch.nn.functional.gelu, torch.nn.functional.relu])[2] == [1, 1]
            assert not t.errors, t.errors
    """)
