"""Every reader with small valid files for it, how to damage them, and how to read all that they hold."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

import optrace
from optrace.layers import dump
from optrace.ops import files as op_files
from optrace.report import text as words
from optrace.trace.model import Trace
from optrace.trace.records import Call, DtypeRef, Opaque, Site, TensorRef, tensors_in
from optrace.weights import rules
from optrace.weights.checkpoint import files as checkpoints
from optrace.weights.checkpoint.entry import Entry
from tests.fuzz import mutate


@dataclass
class Reader:
    """``make`` writes a valid input into an empty folder; ``victims`` are the files to damage there."""

    name: str
    make: Callable[[Path], None]
    victims: dict[str, mutate.Mutation]
    read: Callable[[Path], None]
    share: int = 1

    def damage(self, rng: random.Random, files: dict[str, bytes]) -> tuple[str, bytes]:
        victim = rng.choice(list(self.victims))
        return victim, self.victims[victim](rng, files[victim])


# -- traces ---------------------------------------------------------------------------------------------


def _trace(folder: Path) -> None:
    trace = Trace("full")
    x, w = (
        TensorRef(1, 0, (2, 3), "float32", "cpu", (3, 1)),
        TensorRef(2, 0, (3, 3), "bfloat16", path="fc.weight"),
    )
    y = TensorRef(3, 1, (2, 3), "float32")
    site = Site("model.py", 3, "Net.forward", "y = fc(x)")
    odd = [
        (1, 2.5, None),
        {"k": slice(1, None, 2)},
        10**30,
        1 + 2j,
        DtypeRef("int64"),
        Opaque("Foo", "bar"),
        ...,
    ]
    trace.append(
        Call(0, "torch.nn.functional.linear", "torch", [x, w], {"bias": None}, y, site, "fc", "Linear")
    )
    trace.append(Call(1, "torch.relu", "torch", [y, odd], {}, [y], site, parent=0, mutated=[y], error="E: e"))
    trace.values[x.key] = np.ones((2, 3), np.float32)
    trace.values[w.key] = np.ones((3, 3), ml_dtypes.bfloat16)
    trace.stats(x)
    trace.outputs = [y]
    trace.save(folder / "t")


def _read_trace(folder: Path) -> None:
    trace = optrace.load(folder / "t")
    for call in trace.calls:
        words.signature(call), words.place(call.site), words.module(call)
        for ref in tensors_in([call.positional, call.keyword, call.outputs, call.mutated]):
            trace.value(ref)
            trace.stats(ref)
    for key in trace.value_keys():
        trace.value_of(key)
    words.unseen(trace)
    words.versions(trace.meta)


# -- checkpoints ----------------------------------------------------------------------------------------


def _entries() -> Iterator[Entry]:
    for name, array in {
        "fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fc.bias": np.ones(2, ml_dtypes.bfloat16),
        "n": np.array(7, np.int64),
    }.items():
        yield Entry(name, array.shape, str(array.dtype), lambda array=array: array)


def _checkpoint(name: str) -> Callable[[Path], None]:
    return lambda folder: checkpoints.write(folder / name, _entries())


def _read_checkpoint(name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        for entry in checkpoints.read(folder / name).entries:
            np.ascontiguousarray(entry.load())

    return read


def _legacy(folder: Path) -> None:
    """A file as torch wrote it before 1.6, made by hand."""
    class_ = b"ctorch\nFloatStorage\n"
    storage = b"(X\x07\x00\x00\x00storage" + class_ + b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06NtQ"
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00(K\x02K\x03t(K\x03K\x01t\x89ccollections\nOrderedDict\n)RtR"
    )
    data = b"".join((
        pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2), pickle.dumps({"little_endian": True}, 2),
        b"\x80\x02}X\x01\x00\x00\x00w" + tensor + b"s.", pickle.dumps(["0"], 2),
        (6).to_bytes(8, "little"), np.arange(6, dtype=np.float32).tobytes(),
    ))  # fmt: skip
    (folder / "old.bin").write_bytes(data)


def _index(folder: Path) -> None:
    checkpoints.write(folder / "a.safetensors", _entries())
    index = {
        "metadata": {"total_size": 36},
        "weight_map": dict.fromkeys(("fc.weight", "fc.bias", "n"), "a.safetensors"),
    }
    (folder / "m.safetensors.index.json").write_text(json.dumps(index))


def _numpy_pickle(folder: Path) -> None:
    state = {
        "w": np.ones((2, 3), np.float32),
        "named": ("p", np.zeros(4)),
        "StructuredToParameterName@@": {"w": "p"},
    }
    (folder / "np.pdparams").write_bytes(pickle.dumps(state, 2))


# -- dumps of layers ------------------------------------------------------------------------------------


def _dump(folder: Path) -> None:
    (folder / "tensors").mkdir()
    np.save(folder / "tensors" / "x.npy", np.ones((2, 3), np.float32))
    leaf = {
        "name": "Linear", "route": "net.fc", "layer": "fc", "fwd_inputs": [{"path": "tensors/x.npy", "dtype": "float32"}],
        "fwd_outputs": ["tensors/x.npy"], "bwd_grads": [None], "out_grads": [], "children": [],
        "parameters": {"weight": {"shape": [3, 3], "print": [0.5, 1.0]}}, "weights": {"weight": {"path": "tensors/x.npy"}},
    }  # fmt: skip
    root = {"name": "Net", "route": "net", "layer": "", "children": [leaf]}
    head = {"model_name": "net", "class": "Net", "framework": "torch"}
    (folder / "report.json").write_text(json.dumps({**head, "tree": [root], "layer_map": []}))
    (folder / "params.json").write_text(json.dumps({**head, "tree": root}))


def _read_dump(folder: Path) -> None:
    dump.read_report(folder)
    dump.read_parameters(folder, "weights")


# -- tables and rules -----------------------------------------------------------------------------------

OPS = b"""
[[op]]
torch = "torch.relu"
paddle = "paddle.nn.functional.relu"
kind = "direct"
args = { input = "x" }
"""
RULES = b"""
[[rule]]
from = "encoder.{i}.fc.weight"
to = "layers.{i}.linear.weight"
transpose = true

[[rule]]
from = ["a.{x*}", "b.{x*}"]
to = "c.{x*}"
axis = 1
"""


def _op_table(folder: Path) -> None:
    shutil.copy(op_files.own_files()[0], folder / "own.toml")
    text = (folder / "own.toml").read_bytes()
    end = text.find(b"[[op]]", 1500)
    (folder / "ops.toml").write_bytes(text[:end] if end > 0 else text)
    (folder / "own.toml").unlink()


def _rules(folder: Path) -> None:
    (folder / "r.toml").write_bytes(RULES)
    (folder / "r.json").write_text(
        json.dumps([{"from": "a.{i}", "to": ["b.{i}", "c.{i}"], "sizes": [1, 2], "cast": "bfloat16"}])
    )


def _read_rules(folder: Path) -> None:
    for name in ("r.toml", "r.json"):
        for rule in rules.read(folder / name):
            found = rule.slots("encoder.3.fc.weight")
            if found is not None:
                rule.source_names(found[1])


READERS = [
    Reader("trace", _trace, {
        "t/calls.bin": mutate.records, "t/meta.json": mutate.blind, "t/values-00000.safetensors": mutate.blind,
    }, _read_trace, share=2),
    Reader("safetensors", _checkpoint("m.safetensors"), {"m.safetensors": mutate.blind}, _read_checkpoint("m.safetensors"), 2),
    Reader("index", _index, {"m.safetensors.index.json": mutate.blind}, _read_checkpoint("m.safetensors.index.json")),
    Reader("torch zip", _checkpoint("m.pt"), {"m.pt": mutate.zipped}, _read_checkpoint("m.pt"), 2),
    Reader("torch legacy", _legacy, {"old.bin": mutate.pickled}, _read_checkpoint("old.bin"), 2),
    Reader("pdparams", _checkpoint("m.pdparams"), {"m.pdparams": mutate.pickled}, _read_checkpoint("m.pdparams"), 2),
    Reader("numpy pickle", _numpy_pickle, {"np.pdparams": mutate.pickled}, _read_checkpoint("np.pdparams"), 2),
    Reader("layer dump", _dump, dict.fromkeys(("report.json", "params.json", "tensors/x.npy"), mutate.blind), _read_dump, 2),
    Reader("op table", _op_table, {"ops.toml": mutate.blind}, lambda folder: op_files.read(folder / "ops.toml", check=True) and None),
    Reader("rules", _rules, {"r.toml": mutate.blind, "r.json": mutate.blind}, _read_rules, 2),
]  # fmt: skip
