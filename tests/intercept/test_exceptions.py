"""Exceptions and warnings reach the program as they would without a trace."""

import traceback
import warnings

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
F, PF = torch.nn.functional, paddle.nn.functional

WRONG = {
    "torch builtin": lambda: torch.relu("x"),
    "torch shapes": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    "torch method": lambda: torch.ones(2).view(3),
    "torch method arguments": lambda: torch.ones(2).add(),
    "torch subscript": lambda: torch.ones(2)[5],
    "torch function": lambda: F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])),
    "torch function arguments": lambda: F.softmax(),
    "torch function keyword": lambda: F.softmax(torch.ones(2), nonsense=1),
    "torch module": lambda: torch.nn.Linear(2, 3)(torch.ones(1, 5)),
    "torch backward": lambda: torch.ones(2).sum().backward(),
    "torch attribute": lambda: torch.ones(2).no_such_thing,
    "torch in place": lambda: torch.ones(2, requires_grad=True).add_(1),
    "paddle function": lambda: PF.softmax(paddle.ones([2]), axis=7),
    "paddle arguments": lambda: PF.softmax(),
    "paddle shapes": lambda: paddle.ones([2, 3]) @ paddle.ones([2, 3]),
    "paddle method": lambda: paddle.ones([2]).reshape([3]),
    "paddle layer": lambda: paddle.nn.Linear(2, 3)(paddle.ones([1, 5])),
    "paddle subscript": lambda: paddle.ones([2])[5],
}


def failing(function):
    with pytest.raises(Exception) as caught:
        function()
    return caught.value


def frames(error):
    return [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("name", WRONG)
def test_same_type_message_and_traceback(name):
    plain = failing(WRONG[name])
    with trace(level="full") as t:
        traced = failing(WRONG[name])
    assert type(traced) is type(plain)
    # paddle writes addresses and its own stack into some messages.
    assert str(traced).splitlines()[-3:] == str(plain).splitlines()[-3:]
    assert frames(traced)[1:] == frames(plain)[1:], "the same frames, and none of ours"
    assert not t.errors
    assert all(c.error is not None for c in t.calls if c.outputs is None)


def test_exceptions_of_the_program_inside_a_call():
    class Stop(Exception):
        pass

    class Explodes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise Stop("mine")

    def run():
        Explodes.apply(torch.ones(2, requires_grad=True)).sum().backward()

    with trace(level="meta") as t:
        error = failing(run)
    assert type(error) is Stop and str(error) == "mine"
    assert frames(error)[-1][2] == "backward"
    assert t.calls[-1].error or [c for c in t.calls if c.error]


def test_a_call_that_failed_is_recorded_with_its_error():
    with trace(level="full") as t, pytest.raises(RuntimeError):
        torch.ones(2, 3).mm(torch.ones(2, 3))
    call = t.calls[-1]
    assert call.api == "torch.Tensor.mm" and "RuntimeError" in call.error
    assert [a.shape for a in call.positional] == [(2, 3), (2, 3)]


def test_warnings_name_the_programs_line():
    def old_style():
        return F.upsample(torch.ones(1, 1, 2, 2), scale_factor=2)  # warns with stacklevel=2

    def places():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            old_style()
        return [(w.filename, w.lineno, w.category, str(w.message)) for w in caught]

    plain = places()
    with trace(level="meta"):
        traced = places()
    assert plain and traced == plain
    assert plain[0][0] == __file__


def test_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with trace(level="meta") as t, pytest.raises(UserWarning):
            F.upsample(torch.ones(1, 1, 2, 2), scale_factor=2)
        with trace(level="full") as u:  # nothing of ours warns
            torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert not t.errors and not u.errors
