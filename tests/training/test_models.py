"""A BERT classification fine-tune: AdamW, warm-up, clipping; aligned, and every changed setting named."""

import numpy as np
import paddle
import pytest
import torch
from bert import PaddleBert, config
from loops import loops, silent
from transformers import BertForSequenceClassification

IDS = np.random.default_rng(4).integers(1, 60, (4, 9)).astype("int64")
LABELS = np.array([0, 2, 1, 1], "int64")
WARM, RATE = 3, 2e-3


def _torch_loop(model, steps):
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    decayed = [p for n, p in model.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / WARM))
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(torch.tensor(IDS)).logits
        torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _paddle_loop(model, steps, warm=WARM, clip=1.0, decay=0.1, epsilon=1e-6, beta2=0.999, smoothing=0.0):
    decayed = {p.name for n, p in model.named_parameters() if not (n.endswith("bias") or "norm" in n)}
    schedule = paddle.optimizer.lr.LambdaDecay(RATE, lambda i: min(1.0, (i + 1) / warm))
    optimizer = paddle.optimizer.AdamW(
        schedule, parameters=model.parameters(), epsilon=epsilon, beta2=beta2, weight_decay=decay,
        apply_decay_param_fun=lambda name: name in decayed, grad_clip=paddle.nn.ClipGradByGlobalNorm(clip),
    )  # fmt: skip
    for _ in range(steps):
        logits = model(paddle.to_tensor(IDS))
        paddle.nn.functional.cross_entropy(
            logits, paddle.to_tensor(LABELS), label_smoothing=smoothing
        ).backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()


def _report(steps, **changed):
    torch.manual_seed(0)
    base = BertForSequenceClassification(config()).train()
    raw = PaddleBert(base)
    return loops(lambda: _torch_loop(base, steps), lambda: _paddle_loop(raw, steps, **changed))


@pytest.mark.parametrize("steps", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_fine_tune_is_aligned(steps):
    silent(_report(steps))


CHANGES = [
    ({"warm": 2}, "learning_rate"),
    ({"clip": 0.5}, "grad_clip"),
    ({"decay": 0.01}, "weight_decay"),
    ({"epsilon": 1e-4}, "epsilon"),
    ({"beta2": 0.98}, "beta2"),
    ({"smoothing": 0.1}, "label_smoothing"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "argument"), CHANGES)
def test_a_changed_setting_is_named(changed, argument):
    assert _report(20, **changed).first.argument == argument


def test_a_changed_setting_is_named_at_once():
    assert _report(2, decay=0.01).first.argument == "weight_decay"
