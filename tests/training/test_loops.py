"""Whole loops: losses, accumulation, two optimizers, checkpoints on disk, and that tracing changes nothing."""

import numpy as np
import paddle
import pytest
import torch
from loops import INPUT, LABELS, loops, nets, only, paddle_mse, silent, torch_mse, train

import optrace

P, T = paddle.optimizer, torch.optim
TF, PF = torch.nn.functional, paddle.nn.functional


def _ce(**kwargs):
    return (
        lambda out: TF.cross_entropy(out, torch.tensor(LABELS)),
        lambda out: PF.cross_entropy(out, paddle.to_tensor(LABELS), **kwargs),
    )


def test_losses():
    base, raw = nets()
    silent(train(base, raw, losses=_ce()))
    for kwargs in ({"reduction": "sum"}, {"label_smoothing": 0.1}, {"ignore_index": 1}):
        base, raw = nets()
        finding = only(train(base, raw, losses=_ce(**kwargs)))
        assert finding.stage == "loss" and finding.raw.api == "paddle.nn.functional.cross_entropy", kwargs
        assert finding.argument == next(iter(kwargs))


def test_loss_in_a_loop_of_ones_own():
    base, raw = nets()
    finding = only(
        loops(
            lambda: TF.mse_loss(base(torch.tensor(INPUT)), torch.zeros(8, 3)).backward(),
            lambda: PF.mse_loss(
                raw(paddle.to_tensor(INPUT)), paddle.zeros([8, 3]), reduction="sum"
            ).backward(),
        )
    )
    assert finding.stage == "loss" and finding.argument == "reduction"


def test_accumulation():
    base, raw = nets()
    theirs, mine = T.SGD(base.parameters(), lr=0.1), P.SGD(0.1, parameters=raw.parameters())

    def torch_loop():
        for _ in range(2):
            for part in torch.tensor(INPUT).chunk(2):
                (base(part).square().mean() / 2).backward()
            theirs.step()
            theirs.zero_grad()

    def paddle_loop(share=2):
        for _ in range(2):
            for part in paddle.to_tensor(INPUT).chunk(2):
                (raw(part).square().mean() / share).backward()
            mine.step()
            mine.clear_grad()

    silent(loops(torch_loop, paddle_loop))


def test_two_optimizers():
    def run(rate):
        g, pg = nets()
        d, pd = nets(torch.sigmoid, PF.sigmoid)
        for theirs, mine in zip(d.parameters(), pd.parameters()):
            mine.set_value(mine * 1.5)
            theirs.data *= 1.5
        go, do = T.Adam(g.parameters(), lr=0.01), T.Adam(d.parameters(), lr=0.02)
        pgo, pdo = P.Adam(0.01, parameters=pg.parameters()), P.Adam(rate, parameters=pd.parameters())

        def torch_loop():
            for _ in range(2):
                do.zero_grad()
                (
                    d(torch.tensor(INPUT)).mean()
                    - d(torch.nn.functional.pad(g(torch.tensor(INPUT)).detach(), (0, 2))).mean()
                ).backward()
                do.step()
                go.zero_grad()
                d(torch.nn.functional.pad(g(torch.tensor(INPUT)), (0, 2))).mean().backward()
                go.step()

        def paddle_loop():
            for _ in range(2):
                pdo.clear_grad()
                x = paddle.to_tensor(INPUT)
                (
                    pd(x).mean() - pd(paddle.concat([pg(x).detach(), paddle.zeros([8, 2])], 1)).mean()
                ).backward()
                pdo.step()
                pgo.clear_grad()
                pd(paddle.concat([pg(x), paddle.zeros([8, 2])], 1)).mean().backward()
                pgo.step()

        return loops(torch_loop, paddle_loop)

    silent(run(0.02))
    assert only(run(0.03)).argument == "learning_rate"


def test_number_of_steps():
    base, raw = nets()
    theirs, mine = T.SGD(base.parameters(), lr=0.1), P.SGD(0.1, parameters=raw.parameters())

    def torch_loop():
        for _ in range(3):
            theirs.zero_grad()
            torch_mse(base(torch.tensor(INPUT))).backward()
            theirs.step()

    def paddle_loop():
        for _ in range(2):
            mine.clear_grad()
            paddle_mse(raw(paddle.to_tensor(INPUT))).backward()
            mine.step()

    assert only(loops(torch_loop, paddle_loop)).kind == "missing_op"


def test_stored_traces(tmp_path):
    base, raw = nets()
    theirs, mine = T.Adam(base.parameters(), lr=0.1), P.Adam(0.2, parameters=raw.parameters())
    with optrace.trace(level="full", out=tmp_path / "base"):
        torch_mse(base(torch.tensor(INPUT))).backward()
        theirs.step()
    with optrace.trace(level="full", out=tmp_path / "raw"):
        paddle_mse(raw(paddle.to_tensor(INPUT))).backward()
        mine.step()
    assert only(optrace.diff(tmp_path / "base", tmp_path / "raw")).argument == "learning_rate"


def test_batches_from_loaders():
    base, raw = nets()
    batches = [{"x": INPUT + n} for n in range(3)]
    pair = T.SGD(base.parameters(), lr=0.1), P.SGD(0.1, parameters=raw.parameters())
    report = optrace.auto_diff(
        base,
        raw,
        (iter(batches), iter(batches)),
        (torch_mse, paddle_mse),
        pair,
        auto_init=False,
        train=True,
        steps=3,
    )
    silent(report)


def _trained(traced, framework):
    base, raw = nets()
    if framework == "torch":
        opt = T.AdamW(base.parameters(), lr=0.1, foreach=False)
        model, loss, given, clear = base, torch_mse, torch.tensor(INPUT), opt.zero_grad
    else:
        opt = P.AdamW(0.1, parameters=raw.parameters())
        model, loss, given, clear = raw, paddle_mse, paddle.to_tensor(INPUT), opt.clear_grad

    def loop():
        for _ in range(3):
            clear()
            loss(model(given)).backward()
            opt.step()

    if traced:
        with optrace.trace(level="full") as trace:
            loop()
        assert not trace.errors
    else:
        loop()
    return model, [p.detach().numpy().copy() for p in model.parameters()]


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_parameters_are_bit_equal(framework):
    _, plain = _trained(False, framework)
    _, traced = _trained(True, framework)
    assert all(np.array_equal(a, b) for a, b in zip(plain, traced))


def test_no_hook_stays():
    model, _ = _trained(True, "torch")
    assert not any(p._backward_hooks for p in model.parameters())
    assert "__wrapped__" not in vars(torch.Tensor.register_hook)
    assert vars(paddle.autograd.PyLayer).get("apply") is None


@pytest.mark.parametrize(("divide", "expected"), [(2, None), (4, "backward"), (None, "backward")])
def test_accumulated_loss_divided(divide, expected):
    base, raw = nets()
    theirs = torch.optim.SGD(base.parameters(), lr=0.1)
    mine = paddle.optimizer.SGD(0.1, parameters=raw.parameters())

    def torch_loop():
        for _ in range(2):
            (torch_mse(base(torch.tensor(INPUT))) / 2).backward()
        theirs.step()

    def paddle_loop():
        for _ in range(2):
            loss = paddle_mse(raw(paddle.to_tensor(INPUT)))
            (loss if divide is None else loss / divide).backward()
        mine.step()

    report = loops(torch_loop, paddle_loop)
    assert (report.first and report.first.stage) == expected, str(report)


def test_tensor_argument_of_the_loss_left_out():
    weight = [0.2, 1.0, 3.0]
    base, raw = nets()
    report = train(
        base,
        raw,
        losses=(
            lambda out: torch.nn.functional.cross_entropy(out, torch.tensor(LABELS), torch.tensor(weight)),
            lambda out: paddle.nn.functional.cross_entropy(out, paddle.to_tensor(LABELS)),
        ),
        steps=1,
    )
    assert (only(report).stage, report.first.argument) == ("loss", "weight")


def test_loss_module_in_a_loop():
    base, raw = nets()
    theirs, mine = torch.nn.CrossEntropyLoss(label_smoothing=0.1), paddle.nn.CrossEntropyLoss()
    report = loops(
        lambda: theirs(base(torch.tensor(INPUT)), torch.tensor(LABELS)).backward(),
        lambda: mine(raw(paddle.to_tensor(INPUT)), paddle.to_tensor(LABELS)).backward(),
    )
    assert (only(report).stage, report.first.argument) == ("loss", "label_smoothing")
