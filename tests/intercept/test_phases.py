"""Each call says which part of training it belongs to."""

from collections import Counter

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")


def multiplications(t):
    """By phase, a public call and the C call below it counted once."""
    names = {"mul", "__mul__", "multiply"}
    found = [c for c in t.calls if c.api.rpartition(".")[2] in names]
    ids = {c.id for c in found}
    return Counter(c.phase for c in found if c.parent not in ids)


def test_calls_inside_backward_are_the_same_picture_on_both_sides():
    class TorchSquare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.mul(g, x) * 2

    class PaddleSquare(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            return paddle.multiply(g, x) * 2

    x = torch.ones(2, requires_grad=True)
    y = paddle.ones([2])
    y.stop_gradient = False
    with trace(level="full") as t:
        TorchSquare.apply(x).sum().backward()
    with trace(level="full") as u:
        PaddleSquare.apply(y).sum().backward()
    assert multiplications(t) == multiplications(u) == {"forward": 1, "backward": 2}
    assert not t.errors and not u.errors
    assert x.grad.tolist() == y.grad.tolist() == [2, 2]


def test_double_backward_is_no_recomputation():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = torch.ones(2, requires_grad=True)
    with trace(level="meta") as t:
        (g,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        g.sum().backward()
    assert "recompute" not in {c.phase for c in t.calls}
    assert x.grad.tolist() == [6, 6]


def test_recompute_in_paddle():
    from paddle.distributed.fleet.utils import recompute

    layer = paddle.nn.Sequential(paddle.nn.Linear(3, 3), paddle.nn.GELU())
    x = paddle.ones([2, 3])
    x.stop_gradient = False
    with trace(level="full") as t:
        recompute(layer, x).sum().backward()
    linears = [c.phase for c in t.calls if c.api == "paddle.nn.functional.linear"]
    assert linears == ["forward", "recompute"] and not t.errors


def torch_training(steps):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    losses, states = [], []
    for _ in range(steps):
        loss = model(torch.randn(3, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        states.append(bytes(torch.get_rng_state().numpy()))
    return losses, states, [p.detach().clone() for p in model.parameters()]


def paddle_training(steps):
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.Dropout(0.5), paddle.nn.Linear(4, 1))
    optimizer = paddle.optimizer.AdamW(parameters=model.parameters(), learning_rate=0.1)
    losses, states = [], []
    for _ in range(steps):
        loss = model(paddle.randn([3, 4])).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        states.append(str(paddle.get_rng_state()[0]).split("0x")[0])
    return losses, states, [p.numpy() for p in model.parameters()]


@pytest.mark.parametrize("train", [torch_training, paddle_training], ids=["torch", "paddle"])
@pytest.mark.parametrize("level", ["meta", "stats", "full"])
def test_twenty_steps_are_the_same_bit_for_bit(train, level):
    expected = train(20)
    with trace(level=level) as t:
        result = train(20)
    assert result[0] == expected[0] and result[1] == expected[1]
    assert all((a == b).all() for a, b in zip(result[2], expected[2], strict=True))
    assert not t.errors
    linears = [c.step for c in t.calls if c.api.endswith("nn.functional.linear")]
    assert linears == [s for s in range(20) for _ in range(2)]
    assert {c.phase for c in t.calls} >= {"forward", "optimizer"}


def test_a_closure_is_forward_and_backward_again():
    model, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    with trace(level="meta") as t:
        optimizer.step(closure)
        torch.relu(x)
    by_name = {c.api: c.phase for c in t.calls}
    assert by_name["torch.nn.functional.linear"] == by_name["torch.Tensor.pow"] == "forward"
    assert by_name["torch.Tensor.dot"] == "optimizer"
    assert t.calls[-1].phase == "forward" and t.calls[-1].step == 1


def test_a_step_that_raises_ends_its_phase():
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            raise ValueError

    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer = Failing(model.parameters(), lr=0.1)
    with trace(level="meta") as t:
        with pytest.raises(ValueError):
            optimizer.step()
        torch.relu(torch.ones(1))
    assert t.calls[-1].phase == "forward"
