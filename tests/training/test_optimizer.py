"""Which setting of the optimizer explains another update."""

import paddle
import pytest
import torch
from loops import INPUT, loops, nets, only, paddle_mse, silent, torch_mse, train

P, T = paddle.optimizer, torch.optim


def _adam(base, raw, **changed):
    right = {"learning_rate": 0.02, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1}
    return (
        T.AdamW(base.parameters(), lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
        P.AdamW(parameters=raw.parameters(), **{**right, **changed}),
    )


def _momentum(base, raw, **changed):
    right = {"learning_rate": 0.1, "momentum": 0.8, "weight_decay": 0.05, "use_nesterov": True}
    return (
        T.SGD(base.parameters(), lr=0.1, momentum=0.8, weight_decay=0.05, nesterov=True),
        P.Momentum(parameters=raw.parameters(), **{**right, **changed}),
    )


@pytest.mark.parametrize("make", [_adam, _momentum])
def test_equal_settings_are_silent(make):
    base, raw = nets()
    silent(train(base, raw, make(base, raw)))


@pytest.mark.parametrize(
    ("make", "argument", "value"),
    [
        (_adam, "learning_rate", 0.03),
        (_adam, "beta1", 0.9),
        (_adam, "beta2", 0.999),
        (_adam, "epsilon", 1e-8),
        (_adam, "weight_decay", 0.01),
        (_momentum, "learning_rate", 0.11),
        (_momentum, "momentum", 0.9),
        (_momentum, "weight_decay", 0.0),
        (_momentum, "use_nesterov", False),
    ],
)
def test_one_setting(make, argument, value):
    base, raw = nets()
    finding = only(train(base, raw, make(base, raw, **{argument: value})))
    assert (finding.stage, finding.argument) == ("optimizer", argument), finding.message


def test_adamax_places_epsilon_elsewhere():
    base, raw = nets()
    pair = (
        T.Adamax(base.parameters(), lr=0.1, eps=0.1),
        P.Adamax(learning_rate=0.1, epsilon=0.1, parameters=raw.parameters()),
    )
    assert only(train(base, raw, pair)).argument == "epsilon"


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        (
            lambda p: T.Adam(p, lr=0.1, weight_decay=0.1),
            lambda p: P.Adam(0.1, parameters=p, weight_decay=0.1),
        ),
        (lambda p: T.Adamax(p, lr=0.1), lambda p: P.Adamax(0.1, parameters=p)),
        (lambda p: T.NAdam(p, lr=0.05), lambda p: P.NAdam(0.05, parameters=p)),
        (lambda p: T.RAdam(p, lr=0.05), lambda p: P.RAdam(0.05, parameters=p)),
        (lambda p: T.Adagrad(p, lr=0.05, eps=1e-6), lambda p: P.Adagrad(0.05, parameters=p)),
    ],
)
def test_what_agrees_is_silent(theirs, mine):
    base, raw = nets()
    silent(train(base, raw, (theirs(base.parameters()), mine(raw.parameters())), steps=4))


def test_groups():
    def pair(base, raw, rate):
        return (
            T.SGD([{"params": base.a.parameters(), "lr": 0.01}, {"params": base.b.parameters()}], lr=0.1),
            P.SGD(
                learning_rate=0.1,
                parameters=[
                    {"params": raw.a.parameters(), "learning_rate": rate},
                    {"params": raw.b.parameters()},
                ],
            ),
        )

    base, raw = nets()
    silent(train(base, raw, pair(base, raw, 0.1)))
    base, raw = nets()
    finding = only(train(base, raw, pair(base, raw, 1.0)))
    assert finding.argument == "learning_rate" and finding.parameter == "a.weight"


def test_decay_of_biases():
    base, raw = nets()
    weights = [base.a.weight, base.b.weight]
    biases = [base.a.bias, base.b.bias]
    theirs = T.AdamW([{"params": weights}, {"params": biases, "weight_decay": 0.0}], lr=0.1, weight_decay=0.5)
    finding = only(train(base, raw, (theirs, P.AdamW(0.1, parameters=raw.parameters(), weight_decay=0.5))))
    assert finding.argument == "weight_decay" and finding.parameter == "a.bias"


def test_parameter_left_out():
    base, raw = nets()
    pair = (
        T.SGD(base.parameters(), lr=0.1),
        P.SGD(0.1, parameters=[p for n, p in raw.named_parameters() if n != "a.bias"]),
    )
    finding = only(train(base, raw, pair))
    assert (finding.stage, finding.parameter) == ("optimizer", "a.bias")


def _torch_loop(model, opt, steps=3, clip=None, clear=True, schedule=None):
    def run():
        for _ in range(steps):
            if clear:
                opt.zero_grad()
            torch_mse(model(torch.tensor(INPUT))).backward()
            if clip is not None:
                clip(model.parameters())
            opt.step()
            if schedule is not None:
                schedule.step()

    return run


def _paddle_loop(model, opt, steps=3, clear=True, schedule=None):
    def run():
        for _ in range(steps):
            paddle_mse(model(paddle.to_tensor(INPUT))).backward()
            opt.step()
            if clear:
                opt.clear_grad()
            if schedule is not None:
                schedule.step()

    return run


@pytest.mark.parametrize(
    ("clip", "right"),
    [
        (lambda: paddle.nn.ClipGradByGlobalNorm(0.1), True),
        (lambda: paddle.nn.ClipGradByNorm(0.1), False),
        (lambda: paddle.nn.ClipGradByGlobalNorm(0.2), False),
        (lambda: paddle.nn.ClipGradByValue(0.01), False),
        (lambda: None, False),
    ],
)
def test_clipping(clip, right):
    base, raw = nets()
    report = loops(
        _torch_loop(
            base, T.SGD(base.parameters(), lr=0.1), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 0.1)
        ),
        _paddle_loop(raw, P.SGD(0.1, parameters=raw.parameters(), grad_clip=clip())),
    )
    if right:
        silent(report)
    else:
        finding = only(report)
        assert (finding.stage, finding.argument) == ("optimizer", "grad_clip"), finding.message


def test_gradients_not_cleared():
    base, raw = nets()
    finding = only(
        loops(
            _torch_loop(base, T.SGD(base.parameters(), lr=0.1)),
            _paddle_loop(raw, P.SGD(0.1, parameters=raw.parameters()), clear=False),
        )
    )
    assert finding.stage == "optimizer" and "clear" in finding.suggestion and finding.step == 1


def test_scheduler():
    def run(gamma):
        base, raw = nets()
        theirs = T.SGD(base.parameters(), lr=0.1)
        mine = P.lr.StepDecay(0.1, 1, gamma)
        return loops(
            _torch_loop(base, theirs, schedule=T.lr_scheduler.StepLR(theirs, 1, 0.5)),
            _paddle_loop(raw, P.SGD(mine, parameters=raw.parameters()), schedule=mine),
        )

    silent(run(0.5))
    finding = only(run(0.4))
    assert finding.argument == "learning_rate" and finding.step == 1


def test_step_on_cleared_gradients():
    base, raw = nets()
    theirs = T.AdamW(base.parameters(), lr=0.1, weight_decay=0.5)
    mine = P.AdamW(0.1, parameters=raw.parameters(), weight_decay=0.5)

    def torch_loop():
        torch_mse(base(torch.tensor(INPUT))).backward()
        theirs.zero_grad()
        theirs.step()

    def paddle_loop():
        paddle_mse(raw(paddle.to_tensor(INPUT))).backward()
        mine.clear_grad()
        mine.step()

    finding = only(loops(torch_loop, paddle_loop))
    assert finding.stage == "optimizer" and "cleared" in finding.message


def test_cause_masked_by_another_stage():
    """A wrong backward pass does not hide a wrong setting, nor does the setting repeat every step."""
    base, raw = nets(lambda x: torch.tanh(x) + x, lambda x: paddle.tanh(x).detach() + x)
    report = train(base, raw, _momentum(base, raw, momentum=0.9))
    assert [f.stage for f in report.findings] == ["backward", "optimizer"]


@pytest.mark.parametrize(
    ("theirs", "mine", "argument"),
    [
        (lambda p: T.Adam(p, 0.01), lambda p: P.AdamW(0.01, parameters=p), "weight_decay"),
        (lambda p: T.SGD(p, 0.1, momentum=0.9), lambda p: P.SGD(0.1, p), "momentum"),
        (lambda p: T.SGD(p, 0.1, maximize=True), lambda p: P.SGD(0.1, p), "maximize"),
        (lambda p: T.RMSprop(p, 0.01), lambda p: P.RMSProp(0.01, epsilon=1e-16, parameters=p), "rho"),
        (
            lambda p: T.RMSprop(p, 0.01, alpha=0.95, eps=1e-10, centered=True),
            lambda p: P.RMSProp(0.01, epsilon=1e-20, parameters=p),
            "centered",
        ),
        (
            lambda p: T.Adagrad(p, 0.05, eps=1e-6, initial_accumulator_value=0.1),
            lambda p: P.Adagrad(0.05, parameters=p),
            "initial_accumulator_value",
        ),
        (lambda p: T.Adadelta(p, 1.0, rho=0.9), lambda p: P.Adadelta(1.0, parameters=p), "rho"),
        (
            lambda p: T.NAdam(p, 0.01, momentum_decay=0.1),
            lambda p: P.NAdam(0.01, parameters=p),
            "momentum_decay",
        ),
        (
            lambda p: T.Rprop(p, 0.01),
            lambda p: P.Rprop(0.01, learning_rate_range=(1e-5, 0.011), parameters=p),
            "learning_rate_range",
        ),
    ],
)
def test_settings_of_other_rules(theirs, mine, argument):
    base, raw = nets()
    report = train(base, raw, (theirs(base.parameters()), mine(raw.parameters())))
    assert (report.first.stage, report.first.argument) == ("optimizer", argument), str(report)


def test_one_more_parameter_than_base():
    base, raw = nets()
    pair = (
        T.SGD([p for n, p in base.named_parameters() if n != "a.weight"], lr=0.1),
        P.SGD(0.1, parameters=raw.parameters()),
    )
    finding = only(train(base, raw, pair))
    assert (finding.argument, finding.parameter) == ("parameters", "a.weight")


def test_a_parameter_left_out_of_clipping():
    base, raw = nets()
    raw.a.bias.need_clip = False
    report = loops(
        _torch_loop(
            base, T.SGD(base.parameters(), lr=0.1), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 0.1)
        ),
        _paddle_loop(
            raw, P.SGD(0.1, parameters=raw.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
        ),
    )
    assert only(report).argument == "grad_clip"
