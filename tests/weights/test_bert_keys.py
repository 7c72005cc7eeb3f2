"""BERT's checkpoint, key by key as both frameworks publish it; names and shapes from outside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

from optrace.weights import convert_checkpoint  # noqa: E402

CHECKOUT = Path(__file__).resolve().parents[2]
KEYS = Path(os.environ.get("OPTRACE_SHARED", CHECKOUT.parent / "shared"), "bert_keys.tsv")
SMALL = {30522: 97, 768: 12, 512: 18, 3072: 48}

RULES = """
[[rule]]
from = "bert.embeddings.LayerNorm.gamma"
to = "bert.embeddings.layer_norm.weight"

[[rule]]
from = "bert.embeddings.LayerNorm.beta"
to = "bert.embeddings.layer_norm.bias"

[[rule]]
from = "bert.encoder.layer.{i}.attention.self.query.{kind}"
to = "bert.encoder.layers.{i}.self_attn.q_proj.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.attention.self.key.{kind}"
to = "bert.encoder.layers.{i}.self_attn.k_proj.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.attention.self.value.{kind}"
to = "bert.encoder.layers.{i}.self_attn.v_proj.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.attention.output.dense.{kind}"
to = "bert.encoder.layers.{i}.self_attn.out_proj.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.attention.output.LayerNorm.gamma"
to = "bert.encoder.layers.{i}.norm1.weight"

[[rule]]
from = "bert.encoder.layer.{i}.attention.output.LayerNorm.beta"
to = "bert.encoder.layers.{i}.norm1.bias"

[[rule]]
from = "bert.encoder.layer.{i}.intermediate.dense.{kind}"
to = "bert.encoder.layers.{i}.linear1.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.output.dense.{kind}"
to = "bert.encoder.layers.{i}.linear2.{kind}"
transpose = true

[[rule]]
from = "bert.encoder.layer.{i}.output.LayerNorm.gamma"
to = "bert.encoder.layers.{i}.norm2.weight"

[[rule]]
from = "bert.encoder.layer.{i}.output.LayerNorm.beta"
to = "bert.encoder.layers.{i}.norm2.bias"

[[rule]]
from = "bert.pooler.dense.{kind}"
to = "bert.pooler.dense.{kind}"
transpose = true

[[rule]]
from = "cls.predictions.bias"
to = "cls.predictions.decoder_bias"

[[rule]]
from = "cls.predictions.decoder.weight"
to = "cls.predictions.decoder_weight"

[[rule]]
from = "cls.predictions.transform.dense.{kind}"
to = "cls.predictions.transform.{kind}"
transpose = true

[[rule]]
from = "cls.predictions.transform.LayerNorm.gamma"
to = "cls.predictions.layer_norm.weight"

[[rule]]
from = "cls.predictions.transform.LayerNorm.beta"
to = "cls.predictions.layer_norm.bias"

[[rule]]
from = "cls.seq_relationship.{kind}"
to = "cls.seq_relationship.{kind}"
transpose = true

[[rule]]
from = "bert.embeddings.{table}.weight"
to = "bert.embeddings.{table}.weight"
"""


@pytest.mark.skipif(not KEYS.exists(), reason="the published table of keys is not part of the repository")
def test_every_key_of_bert(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in KEYS.read_text().splitlines()[1:]]
    shapes = [[tuple(SMALL.get(n, n) for n in json.loads(row[k])) for k in (1, 3)] for row in rows]
    numbers = np.random.default_rng(0)
    given = {
        row[0]: torch.tensor(numbers.standard_normal(shape[0]).astype("float32"))
        for row, shape in zip(rows, shapes)
    }
    torch.save({f"module.{name}": tensor for name, tensor in given.items()}, tmp_path / "bert.bin")
    (tmp_path / "bert.toml").write_text(RULES)
    report = convert_checkpoint(
        tmp_path / "bert.bin", tmp_path / "bert.pdparams", rules=tmp_path / "bert.toml"
    )
    assert report.prefix == "module." and not report.unused_rules
    made = {name: t.numpy() for name, t in paddle.load(str(tmp_path / "bert.pdparams")).items()}
    assert made.keys() == {row[2] for row in rows}
    for (theirs, _, mine, _), (_, wanted) in zip(rows, shapes):
        assert made[mine].shape == wanted
        linear = any(
            w in theirs for w in ("dense.weight", "query.weight", "key.weight", "value.weight", "seq_")
        )
        values = given[theirs].numpy()
        assert np.array_equal(made[mine], values.T if linear and values.ndim == 2 else values)
    convert_checkpoint(
        tmp_path / "bert.pdparams", tmp_path / "back.safetensors", rules=tmp_path / "bert.toml"
    )
