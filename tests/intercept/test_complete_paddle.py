"""paddle's own models: no ``_C_ops`` call happens outside a recorded call, and nothing changes."""

from collections import Counter

import numpy as np
import pytest

from optrace.trace.session import trace

paddle = pytest.importorskip("paddle")
pytest.importorskip("torch")

from oracles import watched_c_ops  # noqa: E402

nn = paddle.nn


def image():
    return (paddle.to_tensor(np.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).astype("float32")),)


def sequence(*shape):
    return paddle.to_tensor(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype("float32"))


MODELS = {
    "resnet18": (lambda: paddle.vision.models.resnet18(num_classes=4), image),
    "mobilenet_v2": (lambda: paddle.vision.models.mobilenet_v2(scale=0.25, num_classes=4), image),
    "transformer": (
        lambda: nn.Transformer(16, 2, 1, 1, 32, dropout=0.1),
        lambda: (sequence(2, 4, 16), sequence(2, 3, 16)),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2),
        lambda: (sequence(2, 4, 16),),
    ),
    "lstm": (lambda: nn.LSTM(4, 8, num_layers=2, direction="bidirect"), lambda: (sequence(2, 5, 4),)),
    "gru": (lambda: nn.GRU(4, 8), lambda: (sequence(2, 5, 4),)),
    "rnn": (lambda: nn.SimpleRNN(4, 8), lambda: (sequence(2, 5, 4),)),
    "norms": (
        lambda: nn.Sequential(
            nn.Conv2D(3, 4, 3),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2D(4),
            nn.BatchNorm2D(4),
            nn.Swish(),
            nn.Flatten(),
        ),
        image,
    ),
}
SLOW = {
    "shufflenet": (lambda: paddle.vision.models.shufflenet_v2_x0_25(num_classes=4), image),
    "squeezenet": (lambda: paddle.vision.models.squeezenet1_1(num_classes=4), image),
    "mobilenet_v3": (lambda: paddle.vision.models.mobilenet_v3_small(scale=0.5, num_classes=4), image),
    "resnet50": (lambda: paddle.vision.models.resnet50(num_classes=4), image),
    "vgg11": (lambda: paddle.vision.models.vgg11(num_classes=4), image),
    "densenet": (lambda: paddle.vision.models.densenet121(num_classes=4), image),
}


def tensors(output):
    if isinstance(output, paddle.Tensor):
        return [output]
    return [t for o in output for t in tensors(o)] if isinstance(output, (list, tuple)) else []


def run(make, inputs):
    paddle.seed(3)
    np.random.seed(3)
    model = make()
    optimizer = paddle.optimizer.AdamW(parameters=model.parameters())
    out = tensors(model(*inputs()))
    sum(o.sum() for o in out).backward()
    grads = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    optimizer.step()
    values = [p.numpy() for p in model.parameters()]
    return [o.numpy() for o in out], grads, values, paddle.rand([2]).numpy()


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_nothing_is_lacking_and_nothing_changes(name):
    make, inputs = {**MODELS, **SLOW}[name]
    expected = run(make, inputs)
    missed = Counter()
    with trace(level="meta") as t, watched_c_ops(missed):
        run(make, inputs)
    assert not missed, missed
    with trace(level="meta") as t:
        result = run(make, inputs)
    for a, b in zip(expected[:3], result[:3]):
        assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))
    assert np.array_equal(expected[3], result[3])
    assert not t.errors, t.errors
    print(f"{name}: {len(t.calls)} calls recorded, 0 missed")
