"""Models of transformers in train mode, dropout and all, against a paddle port."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optrace

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_aligned_in_train_mode_forward_and_gradients(kind: str) -> None:
    try:
        from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
    except ImportError as error:
        pytest.skip(str(error))
    from tests.randomness.ports import Port, fill

    model: Any
    if kind == "bert":
        model = BertModel(
            BertConfig(
                vocab_size=60,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
            ),
            add_pooling_layer=False,
        )
    else:
        model = GPT2Model(GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=64))
    port = Port(model.config, causal=kind == "gpt2")
    fill(port, model)
    ids = np.random.default_rng(0).integers(1, 60, (2, 7))
    # A plain square would hardly depend on what comes out of a norm.
    losses = (lambda out: (out[0][..., :5] ** 3).sum(), lambda out: (out[..., :5] ** 3).sum())
    report = optrace.auto_diff(model, port, {"input_ids": ids}, losses, auto_init=False, train=True)
    assert report, str(report)
    assert sum(op.effective and op.framework == "torch" for op in report.random_ops) >= 7
