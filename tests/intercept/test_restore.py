"""After a trace both frameworks are what they were: every name, class, function and type slot."""

import ctypes
import gc
import sys
import types

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F = torch.nn.functional

# Python's own note of warnings shown, and the number of the next hook that anybody registers.
COUNTED = ("__warningregistry__", "next_id")


def slots(cls):
    """The bytes of a class's method tables (number, mapping, sequence, buffer) and its main slots."""
    type_size = 408 if sys.version_info < (3, 12) else 416  # sizeof(PyTypeObject)
    whole = ctypes.string_at(id(cls), type.__basicsize__)
    word = 8
    main = [whole[i * word : (i + 1) * word] for i in (6, 11, 12, 13, 15, 16, 17, 18, 19, 25, 27, 28, 34, 35)]
    return whole[type_size : type_size + 440], main


def state_of(function):
    return (
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        dict(function.__dict__),
        function.__closure__ and [c.cell_contents for c in function.__closure__ if c != types.CellType()],
    )


def snapshot():
    """Every object under every name of the frameworks' modules and classes, and the inside of every function."""
    names, functions = {}, {}
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] not in ("torch", "paddle") or not isinstance(module, types.ModuleType):
            continue
        for name, value in list(vars(module).items()):
            names[module_name, name] = value
            if isinstance(value, type):
                for attribute, member in list(vars(value).items()):
                    names[module_name, name, attribute] = member
    for value in names.values():
        if isinstance(value, types.FunctionType):
            functions[id(value)] = (value, state_of(value))
    return names, functions


def assert_same(before):
    names, functions = before
    after = snapshot()[0]
    changed = [
        key
        for key, value in names.items()
        if after.get(key, "missing") is not value and key[-1] not in COUNTED
    ]
    assert not changed, changed[:20]
    added = [key for key in after if key not in names and key[-1] not in COUNTED]
    assert not added, added[:20]
    for function, state in functions.values():
        assert state_of(function) == state, function


@pytest.fixture(scope="module", autouse=True)
def warmed_up():
    """Lazy imports and caches that any first use of the frameworks fills."""
    with trace(level="meta"):
        work()


def work():
    x = torch.ones(2, 3, requires_grad=True)
    F.gelu(x)[0].T.softmax(-1).sum().backward()
    y = paddle.ones([2, 3])
    paddle.nn.functional.gelu(y)[0].sum()


@pytest.mark.parametrize("level", ["meta", "stats", "full"])
def test_every_name_is_the_same_object(level):
    before = snapshot()
    tensor_slots = [slots(c) for c in (torch.Tensor, paddle.Tensor, torch.nn.Module, paddle.nn.Layer)]
    with trace(level=level):
        work()
    assert_same(before)
    assert [slots(c) for c in (torch.Tensor, paddle.Tensor, torch.nn.Module, paddle.nn.Layer)] == tensor_slots
    assert list(vars(torch.Tensor)) == list(vars(torch.Tensor))


def test_after_an_exception_too():
    before = snapshot()
    with pytest.raises(ZeroDivisionError), trace():
        work()
        1 / 0  # noqa: B018
    with pytest.raises(RuntimeError), trace():
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert_same(before)


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()], ids=repr)
def test_after_an_error_while_patching(monkeypatch, error):
    from optrace.intercept.divert import Diversion

    before = snapshot()
    count = [0]
    apply = Diversion.apply

    def failing(self):
        count[0] += 1
        if count[0] == 50:
            raise error
        apply(self)

    monkeypatch.setattr(Diversion, "apply", failing)
    if isinstance(error, Exception):
        with trace(frameworks=["torch"]) as t:
            assert torch.relu(torch.ones(1)).item() == 1
        assert not t.calls and "starting to record torch" in next(iter(t.errors))
    else:
        count[0] = -200  # by then torch is done and paddle under way
        with pytest.raises(KeyboardInterrupt), trace():
            pass
    assert_same(before)


def test_order_of_class_attributes_is_kept():
    before = list(vars(torch.Tensor)), list(vars(paddle.Tensor)), list(vars(F)), list(vars(torch))
    with trace():
        work()
    assert (list(vars(torch.Tensor)), list(vars(paddle.Tensor)), list(vars(F)), list(vars(torch))) == before


def test_tensor_of_tensors_during_and_after():
    with trace():
        assert torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]
        assert paddle.to_tensor([paddle.to_tensor(1.0)]).shape == [1]
    assert torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]


def test_what_the_program_patches_itself_stays():
    mine = lambda x: x  # noqa: E731
    original = torch.relu
    try:
        with trace():
            torch.relu = mine
        assert torch.relu is mine
    finally:
        torch.relu = original


def test_a_wrapper_put_back_by_the_program_heals():
    original = torch.relu
    with trace():
        taken = torch.relu
    torch.relu = taken  # as a mock does that outlives the trace
    assert torch.relu(torch.ones(1)).item() == 1
    with trace() as t:
        torch.relu(torch.ones(1))
    assert [c.api for c in t.calls] == ["torch.ones", "torch.relu"]
    assert torch.relu is original


def test_a_wrapper_kept_by_the_program_passes_through_and_records_again():
    with trace() as first:
        act = torch.tanh
    count = len(first.calls)
    assert act(torch.zeros(1)).item() == 0
    assert len(first.calls) == count
    with trace() as second:
        act(torch.zeros(1))
    assert [c.api for c in second.calls] == ["torch.zeros", "torch.tanh"]


def test_nothing_of_the_program_is_kept_alive_by_the_hub():
    import weakref

    model = torch.nn.Linear(2, 2)
    with trace(level="meta"):
        model(torch.ones(1, 2))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
