"""One BERT layer: transformers' BertLayer against paddle.nn.TransformerEncoderLayer."""

import numpy as np
import paddle
import torch
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

import optrace

WIDTH, HEADS, INNER = 64, 4, 128

torch.manual_seed(0)
config = BertConfig(
    hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=INNER, layer_norm_eps=1e-5
)
config._attn_implementation = "sdpa"
base = BertLayer(config)
raw = paddle.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, activation="gelu", normalize_before=False)
states = np.random.default_rng(0).standard_normal((2, 16, WIDTH)).astype("float32")

print("1. Carry the weights over: packed or split projections, other names\n")
weights = optrace.assign_weight(base, raw, (states,))
print(weights)

print("\n2. Compare the two layers\n")
report = optrace.auto_diff(base, raw, (states,), auto_init=False)
print(report)
assert report, "the pair should be aligned"

print("\n3. Give the port the tanh form of GELU, and compare again\n")
raw.activation = lambda x: paddle.nn.functional.gelu(x, approximate=True)
report = optrace.auto_diff(base, raw, (states,), auto_init=False)
print(report)
assert report.first is not None and report.first.argument == "approximate"
