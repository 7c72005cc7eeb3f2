"""A small BERT classifier in paddle, with the weights of transformers' model."""

from __future__ import annotations

from typing import Any

import paddle
from paddle.nn import functional as F
from transformers import BertConfig


def config() -> BertConfig:
    return BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=12, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


class _Block(paddle.nn.Layer):
    def __init__(self, like: Any) -> None:
        super().__init__()
        own = like.attention.self
        self.heads = own.num_attention_heads
        self.q, self.k, self.v = _linear(own.query), _linear(own.key), _linear(own.value)
        self.o, self.norm1 = _linear(like.attention.output.dense), _norm(like.attention.output.LayerNorm)
        self.up, self.down = _linear(like.intermediate.dense), _linear(like.output.dense)
        self.norm2 = _norm(like.output.LayerNorm)

    def forward(self, x: Any) -> Any:
        def split(t: Any) -> Any:
            return t.reshape([x.shape[0], x.shape[1], self.heads, -1]).transpose([0, 2, 1, 3])

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = paddle.matmul(q, k, transpose_y=True) * (q.shape[-1] ** -0.5)
        mixed = paddle.matmul(F.softmax(scores, axis=-1), v).transpose([0, 2, 1, 3]).reshape(x.shape)
        x = self.norm1(self.o(mixed) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class PaddleBert(paddle.nn.Layer):
    """The port of ``BertForSequenceClassification``; ``like`` is the model whose weights it takes."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        inner = like.bert.embeddings
        self.words, self.places = (
            _embedding(inner.word_embeddings, inner.word_embeddings.padding_idx),
            _embedding(inner.position_embeddings),
        )
        self.kinds, self.norm = _embedding(inner.token_type_embeddings), _norm(inner.LayerNorm)
        self.blocks = paddle.nn.LayerList([_Block(b) for b in like.bert.encoder.layer])
        self.pooler, self.classifier = _linear(like.bert.pooler.dense), _linear(like.classifier)

    def forward(self, ids: Any) -> Any:
        places = paddle.arange(ids.shape[1]).unsqueeze(0)
        x = self.words(ids) + self.kinds(paddle.zeros_like(ids)) + self.places(places)
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(paddle.tanh(self.pooler(x[:, 0])))


def _linear(like: Any) -> Any:
    made = paddle.nn.Linear(like.in_features, like.out_features)
    made.weight.set_value(like.weight.detach().numpy().T)
    made.bias.set_value(like.bias.detach().numpy())
    return made


def _norm(like: Any) -> Any:
    made = paddle.nn.LayerNorm(list(like.normalized_shape), epsilon=like.eps)
    made.weight.set_value(like.weight.detach().numpy())
    made.bias.set_value(like.bias.detach().numpy())
    return made


def _embedding(like: Any, padding: int | None = None) -> Any:
    made = paddle.nn.Embedding(like.num_embeddings, like.embedding_dim, padding_idx=padding)
    made.weight.set_value(like.weight.detach().numpy())
    return made
