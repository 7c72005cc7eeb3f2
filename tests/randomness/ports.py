"""BERT and GPT-2 of transformers, written for paddle: encoder blocks with dropout where the originals have it."""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    """``causal``: GPT-2's block (norm first, tanh gelu); else BERT's (norm last)."""

    def __init__(self, width: int, heads: int, inner: int, p: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.p, self.causal = heads, p, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out, self.up, self.down = (
            nn.Linear(width, width),
            nn.Linear(width, inner),
            nn.Linear(inner, width),
        )
        epsilon = 1e-5 if causal else 1e-12
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)

    def attend(self, x: Any) -> Any:
        b, n, c = x.shape
        q, k, v = (
            self.qkv(x).reshape([b, n, 3, self.heads, c // self.heads]).transpose([2, 0, 3, 1, 4]).unbind(0)
        )
        scores = paddle.matmul(q, k, transpose_y=True) / math.sqrt(c // self.heads)
        if self.causal:
            scores = scores + paddle.triu(paddle.full([n, n], -1e9), 1)
        weights = F.dropout(F.softmax(scores, -1), self.p, training=self.training)
        y = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([b, n, c])
        return F.dropout(self.out(y), self.p, training=self.training)

    def feed(self, x: Any) -> Any:
        y = self.down(F.gelu(self.up(x), approximate=self.causal))
        return F.dropout(y, self.p, training=self.training)

    def forward(self, x: Any) -> Any:
        if self.causal:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Port(nn.Layer):
    """Token (and position, and type) embeddings, blocks, and GPT-2's last norm."""

    def __init__(self, config: Any, causal: bool, p: float = 0.1) -> None:
        super().__init__()
        width, self.causal, self.p = config.hidden_size, causal, p
        self.word = nn.Embedding(config.vocab_size, width)
        self.place = nn.Embedding(config.max_position_embeddings, width)
        self.kind = None if causal else nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-5 if causal else 1e-12)
        self.blocks = nn.LayerList(
            [
                Block(width, config.num_attention_heads, 4 * width, p, causal)
                for _ in range(config.num_hidden_layers)
            ]
        )

    def forward(self, input_ids: Any) -> Any:
        x = self.word(input_ids) + self.place(paddle.arange(input_ids.shape[1]))
        if self.kind is not None:
            x = self.norm(x + self.kind(paddle.zeros_like(input_ids)))
        x = F.dropout(x, self.p, training=self.training)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) if self.causal else x


def fill(port: Port, model: Any) -> None:
    """Carry the weights of the transformers model over."""
    state = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    causal = port.causal

    def put(layer: Any, name: str, turned: bool) -> None:
        weight = state[f"{name}.weight"]
        layer.weight.set_value(weight.T if turned else weight)
        if getattr(layer, "bias", None) is not None and f"{name}.bias" in state:
            layer.bias.set_value(state[f"{name}.bias"])

    if causal:
        names = {"word": "wte", "place": "wpe", "norm": "ln_f"}
        inner = {"qkv": "attn.c_attn", "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
        inner |= {"norm1": "ln_1", "norm2": "ln_2"}
    else:
        names = {
            k: f"embeddings.{v}_embeddings"
            for k, v in (("word", "word"), ("place", "position"), ("kind", "token_type"))
        }
        names["norm"] = "embeddings.LayerNorm"
        inner = {"out": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense"}
        inner |= {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
    for mine, theirs in names.items():
        put(getattr(port, mine), theirs, False)
    for i, block in enumerate(port.blocks):
        prefix = f"h.{i}." if causal else f"encoder.layer.{i}."
        for mine, theirs in inner.items():
            put(getattr(block, mine), prefix + theirs, not causal and "norm" not in mine)
        if not causal:
            parts = [prefix + f"attention.self.{n}" for n in ("query", "key", "value")]
            block.qkv.weight.set_value(
                paddle.concat([paddle.to_tensor(state[f"{n}.weight"].T) for n in parts], 1)
            )
            block.qkv.bias.set_value(paddle.concat([paddle.to_tensor(state[f"{n}.bias"]) for n in parts]))
