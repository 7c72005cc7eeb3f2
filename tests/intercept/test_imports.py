"""optrace and the frameworks may be imported in any order, a trace may start at any moment of it."""

import itertools

import pytest

pytest.importorskip("torch")
pytest.importorskip("paddle")

RUN = """
with trace(level="meta") as t:
    torch.relu(torch.ones(2))[0]
    paddle.nn.functional.relu(paddle.ones([2]))[0]
seen = {c.api for c in t.calls}
need = {"torch.relu", "torch.ones", "torch.Tensor.__getitem__", "paddle.nn.functional.relu", "paddle.ones"}
assert need <= seen, need - seen
assert not t.errors, t.errors
"""


@pytest.mark.parametrize("order", list(itertools.permutations(["optrace", "torch", "paddle"])), ids="-".join)
def test_any_order(run_python, order):
    lines = {
        "optrace": "import optrace\nfrom optrace.trace.session import trace",
        "torch": "import torch",
        "paddle": "import paddle",
    }
    run_python("\n".join(lines[name] for name in order) + RUN)


def test_import_has_no_side_effects(run_python):
    run_python("""
        import sys
        import optrace, optrace.trace.session
        assert "torch" not in sys.modules and "paddle" not in sys.modules
        import torch, paddle
        before = {k: id(v) for m in (torch, torch.nn.functional, paddle, paddle.nn.functional) for k, v in vars(m).items()}
        for name in [m for m in sys.modules if m.startswith("optrace")]:
            del sys.modules[name]
        import optrace, optrace.trace.session
        after = {k: id(v) for m in (torch, torch.nn.functional, paddle, paddle.nn.functional) for k, v in vars(m).items()}
        assert before == after
    """)


@pytest.mark.parametrize("first,second", [("torch", "paddle"), ("paddle", "torch")])
def test_trace_started_before_either_is_imported(run_python, first, second):
    run_python(f"""
        from optrace.trace.session import trace
        with trace(level="meta") as t:
            import {first}
            {first}.ones([2])[0]
            import {second}
            {second}.ones([2])[0]
        seen = [c.api for c in t.calls]
        assert seen.count("torch.Tensor.__getitem__") == seen.count("paddle.Tensor.__getitem__") == 1, seen
        assert not t.errors, t.errors
        import torch, paddle
        assert torch.ones.__class__.__name__ == "builtin_function_or_method"
        assert "optrace" not in paddle.ones.__code__.co_filename
    """)


def test_names_bound_during_the_import_are_recorded(run_python):
    run_python("""
        from optrace.trace.session import trace
        with trace(level="meta") as t:
            from torch.nn.functional import gelu
            from torch import tanh, ones
            gelu(tanh(ones(2)))
        assert [c.api for c in t.calls] == ["torch.ones", "torch.tanh", "torch.nn.functional.gelu"]
    """)


@pytest.mark.parametrize("name,inside", [("torch", "torch.nn.modules"), ("paddle", "paddle.nn")])
def test_started_in_the_middle_of_the_import(run_python, name, inside):
    """A finder of ours starts the trace while the framework is half there."""
    run_python(f"""
        import importlib.abc, sys
        from optrace.trace.session import trace
        tracing = trace(level="meta")
        class Finder(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name == "{inside}":
                    sys.meta_path.remove(self)
                    self.trace = tracing.__enter__()
        finder = Finder()
        sys.meta_path.insert(0, finder)
        import {name} as fw
        x = fw.ones([2, 2])
        fw.nn.functional.relu(x)
        x[0]
        tracing.__exit__(None, None, None)
        seen = [c.api for c in finder.trace.calls if c.parent < 0]
        assert seen == ["{name}.ones", "{name}.nn.functional.relu", "{name}.Tensor.__getitem__"], seen
        assert not finder.trace.errors, finder.trace.errors
    """)


def test_imported_by_another_thread_while_the_trace_runs(run_python):
    run_python("""
        import threading
        from optrace.trace.session import trace
        with trace(level="meta") as t:
            other = threading.Thread(target=__import__, args=("torch",))
            other.start(); other.join()
            import torch
            torch.nn.Linear(2, 2)(torch.ones(1, 2))
        assert "torch.nn.functional.linear" in [c.api for c in t.calls]
        assert torch.relu.__class__.__name__ == "builtin_function_or_method"
    """)


def test_an_import_that_fails_is_no_matter(run_python):
    run_python("""
        import sys
        from optrace.trace.session import trace
        sys.modules["torch"] = None
        with trace(level="meta") as t:
            try:
                import torch
            except ImportError:
                pass
            import paddle
            paddle.ones([1])
        assert t.calls[0].api == "paddle.ones"
    """)
