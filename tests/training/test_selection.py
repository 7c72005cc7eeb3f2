"""Part of a long run recorded: steps, modules, calls; and programs with optimizers compared by the command line."""

import sys

import paddle
import torch
from loops import INPUT, nets, paddle_mse, torch_mse

import optrace
from optrace.trace.selection import Selection


def _torch_loop(model, lr=0.05):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(7):
        optimizer.zero_grad()
        torch_mse(model(torch.tensor(INPUT))).backward()
        optimizer.step()


def _paddle_loop(model, late):
    optimizer = paddle.optimizer.Adam(0.05, parameters=model.parameters())
    for step in range(7):
        if step == 3:
            optimizer.set_lr(late)
        paddle_mse(model(paddle.to_tensor(INPUT))).backward()
        optimizer.step()
        optimizer.clear_grad()


def _report(late, **select):
    base, raw = nets()
    with optrace.trace(level="full", select=Selection(**select)) as a:
        _torch_loop(base)
    with optrace.trace(level="full", select=Selection(**select)) as b:
        _paddle_loop(raw, late)
    assert {s.step for s in a.training.steps} == {c.step for c in a.calls if c.api.endswith("Adam.step")}
    return a, optrace.diff(a, b)


def test_every_third_step():
    trace, report = _report(0.05, every=3)
    assert {c.step for c in trace.calls} == {0, 3, 6} == {g.step for g in trace.training.gradients}
    assert not report.findings, str(report)
    finding = _report(0.5, every=3)[1].first
    assert (finding.argument, finding.step) == ("learning_rate", 3)


def test_first_steps_only():
    trace, report = _report(0.5, steps=2)
    assert {c.step for c in trace.calls} == {0, 1}
    assert not report.findings, str(report)


def test_scope_and_ops():
    base, _ = nets()
    with optrace.trace(select=Selection(scope=("a",))) as trace:
        base(torch.tensor(INPUT))
    assert [c.module for c in trace.calls] == ["a"]
    with optrace.trace(select=Selection(ops=("*.tanh",))) as trace:
        base(torch.tensor(INPUT))
    assert [c.api for c in trace.calls] == ["torch.tanh"]


def test_parameters_do_not_change_by_it():
    plain, traced = nets()[0], nets()[0]
    _torch_loop(plain)
    with optrace.trace(level="full", select=Selection(every=2)):
        _torch_loop(traced)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), traced.parameters()))


def test_the_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from optrace.cli import app

    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(3, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(6):\n"
        "    model(torch.ones(1, 3)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    monkeypatch.setattr(sys, "argv", sys.argv)
    words = ["run", "-o", str(tmp_path / "out"), "--steps", "4", "--every", "2", str(script)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert {c.step for c in optrace.load(tmp_path / "out").calls} == {0, 2}
