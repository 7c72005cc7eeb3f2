"""The models that tracing is measured on, the same in both frameworks."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

THREADS = 2


class Workload(NamedTuple):
    """``forward()`` runs the model once; ``training()`` runs it and the backward pass of its mean."""

    name: str
    forward: Callable[[], Any]
    training: Callable[[], Any]
    runs: int


class Size(NamedTuple):
    width: int
    heads: int
    feedforward: int
    length: int
    batch: int


ENCODER = Size(256, 8, 1024, 64, 8)
TINY = Size(32, 4, 64, 8, 1)


def workloads(framework: str) -> list[Workload]:
    """All of them on ``"torch"`` or ``"paddle"``."""
    gc.collect()
    return [
        _workload(framework, "encoder", _encoder(framework, ENCODER), _sequence(framework, ENCODER), 9),
        _workload(framework, "ResNet-18", _resnet(framework), _image(framework), 9),
        _workload(framework, "tiny encoder", _encoder(framework, TINY), _sequence(framework, TINY), 41),
    ]


def _workload(framework: str, name: str, model: Any, x: Any, runs: int) -> Workload:
    module = importlib.import_module(framework)
    clear = model.zero_grad if framework == "torch" else model.clear_gradients

    def forward() -> Any:
        with module.no_grad():
            return model(x)

    def training() -> None:
        model(x).mean().backward()
        clear()

    return Workload(name, forward, training, runs)


def _encoder(framework: str, size: Size) -> Any:
    nn = importlib.import_module(f"{framework}.nn")
    given = {"batch_first": True} if framework == "torch" else {}
    layer = nn.TransformerEncoderLayer(size.width, size.heads, size.feedforward, dropout=0.0, **given)
    model = nn.TransformerEncoder(
        layer, 6, **({"enable_nested_tensor": False} if framework == "torch" else {})
    )
    return model.train() or model


def _sequence(framework: str, size: Size) -> Any:
    return _tensor(framework, (size.batch, size.length, size.width))


def _image(framework: str) -> Any:
    return _tensor(framework, (4, 3, 64, 64))


def _tensor(framework: str, shape: tuple[int, ...]) -> Any:
    module = importlib.import_module(framework)
    make = module.from_numpy if framework == "torch" else module.to_tensor
    return make(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def _resnet(framework: str) -> Any:
    if framework == "paddle":
        vision = importlib.import_module("paddle.vision.models")
        return vision.resnet18()
    transformers = importlib.import_module("transformers")
    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
    )
    model = transformers.ResNetForImageClassification(config)
    return _Logits.around(model)


class _Logits:
    """Makes a model of ``transformers`` return one tensor."""

    @staticmethod
    def around(model: Any) -> Any:
        torch = importlib.import_module("torch")

        class Logits(torch.nn.Module):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: Any) -> Any:
                return self.model(x).logits

        return Logits()
