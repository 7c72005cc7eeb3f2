"""Checkpoints: every format to every other, rules, refusal of what is unsafe or unfinished."""

import json
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

from optrace.errors import ConversionError  # noqa: E402
from optrace.weights import rules  # noqa: E402
from optrace.weights.checkpoint import files  # noqa: E402
from optrace.weights.convert import convert_checkpoint  # noqa: E402
from optrace.weights.rules_from_models import rules_from_models  # noqa: E402
from optrace.weights.verify import compare, forward  # noqa: E402

SAME = [{"from": "{name*}", "to": "{name*}"}]


def tensors():
    g = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(4, 3, generator=g),
        "a.bias": torch.randn(4, generator=g).to(torch.bfloat16),
        "b.half": torch.randn(2, 2, generator=g).half(),
        "b.long": torch.arange(5),
        "b.flag": torch.tensor([True, False]),
        "b.scalar": torch.tensor(3.5, dtype=torch.float64),
        "b.empty": torch.zeros(0, 3),
        "c.turned": torch.randn(5, 2, generator=g).t(),
        "c.part": torch.randn(10, generator=g)[3:7:2],
    }


def as_numpy(t):
    return (
        t.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        if t.dtype == torch.bfloat16
        else t.numpy()
    )


def save(path, state):
    if path.suffix == ".safetensors":
        safetensors_torch.save_file({k: v.contiguous() for k, v in state.items()}, path)
    elif path.suffix == ".pdparams":
        paddle.save({k: paddle.to_tensor(v.float().numpy()).astype("bfloat16") if v.dtype == torch.bfloat16
                     else paddle.to_tensor(v.numpy()) for k, v in state.items()}, str(path))  # fmt: skip
    elif path.suffix == ".pth":
        torch.save(state, path, _use_new_zipfile_serialization=False)
    else:
        torch.save(state, path)


def check(path, state):
    """The frameworks' own loaders read what was written."""
    if path.suffix == ".safetensors":
        found = {k: as_numpy(v) for k, v in safetensors_torch.load_file(path).items()}
    elif path.suffix == ".pdparams":
        loaded = paddle.load(str(path), return_numpy=True)
        found = {k: v.view(ml_dtypes.bfloat16) if v.dtype == np.uint16 else v for k, v in loaded.items()}
    else:
        found = {k: as_numpy(v) for k, v in torch.load(path, weights_only=True).items()}
    assert set(found) == set(state)
    for name, tensor in state.items():
        wanted = as_numpy(tensor)
        assert found[name].dtype == wanted.dtype and found[name].shape == wanted.shape, name
        assert found[name].tobytes() == wanted.tobytes(), name


@pytest.mark.parametrize("to", [".bin", ".safetensors", ".pdparams"])
@pytest.mark.parametrize("source", [".bin", ".pth", ".safetensors", ".pdparams"])
def test_formats(tmp_path, source, to):
    state = tensors()
    if source == ".pth":  # that format of old can't hold a view's storage twice
        state = {k: v.clone() for k, v in state.items()}
    save(tmp_path / f"src{source}", state)
    report = convert_checkpoint(tmp_path / f"src{source}", tmp_path / f"dst{to}", rules=SAME)
    assert report and len(report.mapping) == len(state)
    check(tmp_path / f"dst{to}", state)
    assert not list(tmp_path.glob("*.part*"))


def test_paddle_model_takes_the_file(tmp_path):
    t, p = torch.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    torch.save(t.state_dict(), tmp_path / "t.bin")
    convert_checkpoint(
        tmp_path / "t.bin", tmp_path / "p.pdparams", rules=[{"from": "{n}", "to": "{n}", "transpose": True}]
    )
    p.set_state_dict(paddle.load(str(tmp_path / "p.pdparams")))
    x = np.ones((2, 3), "float32")
    assert np.allclose(p(paddle.to_tensor(x)).numpy(), t(torch.tensor(x)).detach().numpy(), atol=1e-6)


RULES = [
    {
        "from": "h.{i}.qkv.{w}",
        "to": ["l.{i}.q.{w}", "l.{i}.k.{w}", "l.{i}.v.{w}"],
        "axis": 0,
        "transpose": True,
    },
    {
        "from": ["h.{i}.gate.weight", "h.{i}.up.weight"],
        "to": "l.{i}.both.weight",
        "axis": 0,
        "transpose": True,
    },
    {"from": "e.weight", "to": "table.weight"},
    {"from": "junk.{any*}", "drop": True},
    {"from": "head", "to": "head", "cast": "float16"},
]


def layered():
    return {
        **{f"h.{i}.qkv.weight": torch.randn(6, 4) for i in range(2)},
        **{f"h.{i}.qkv.bias": torch.randn(6) for i in range(2)},
        **{f"h.{i}.{n}.weight": torch.randn(5, 4) for i in range(2) for n in ("gate", "up")},
        "e.weight": torch.randn(7, 4),
        "junk.a.b": torch.zeros(1),
        "head": torch.randn(3),
    }


def test_rules(tmp_path):
    state = layered()
    torch.save(state, tmp_path / "s.pt")
    report = convert_checkpoint(tmp_path / "s.pt", tmp_path / "d.pdparams", rules=RULES)
    made = paddle.load(str(tmp_path / "d.pdparams"), return_numpy=True)
    assert np.array_equal(made["l.1.k.weight"], state["h.1.qkv.weight"][2:4].T.numpy())
    assert np.array_equal(made["l.1.v.bias"], state["h.1.qkv.bias"][4:].numpy())
    joined = torch.cat([state["h.0.gate.weight"], state["h.0.up.weight"]]).T.numpy()
    assert np.array_equal(made["l.0.both.weight"], joined)
    assert made["head"].dtype == np.float16
    assert report.dropped == ["junk.a.b"] and "cut along 0, transposed" in str(report)


def test_rules_go_back(tmp_path):
    state = {k: v for k, v in layered().items() if not k.startswith("junk")}
    there = [r for r in RULES if "drop" not in r and "cast" not in r] + [{"from": "head", "to": "top"}]
    there[1] = {**there[1]}
    torch.save(state, tmp_path / "s.pt")
    convert_checkpoint(tmp_path / "s.pt", tmp_path / "d.pdparams", rules=there)
    convert_checkpoint(tmp_path / "d.pdparams", tmp_path / "b.pt", rules=there)
    check(tmp_path / "b.pt", state)


def test_rules_in_a_file(tmp_path):
    torch.save(layered(), tmp_path / "s.pt")
    for suffix in (".toml", ".json"):
        file = tmp_path / f"rules{suffix}"
        rules.write(file, rules.parse(RULES), "written by a test")
        assert rules.read(file) == rules.parse(RULES)
        assert convert_checkpoint(tmp_path / "s.pt", tmp_path / "d.safetensors", rules=file)


def test_dry_run_writes_nothing(tmp_path):
    torch.save(layered(), tmp_path / "s.pt")
    report = convert_checkpoint(
        tmp_path / "s.pt", tmp_path / "d.pdparams", rules=str(_write(tmp_path)), dry_run=True
    )
    assert "would become" in str(report) and "l.0.q.weight [4, 2]" in str(report)
    assert not (tmp_path / "d.pdparams").exists()


def _write(folder):
    rules.write(folder / "r.toml", rules.parse(RULES))
    return folder / "r.toml"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (RULES[:-1], "no rule says what becomes of 1 of .*head"),
        ([{"from": "{a*}", "to": "x"}], "more than one tensor would become x"),
        ([*RULES[:1], {"from": ["head", "tail"], "to": "x"}, {"from": "{a*}", "to": "{a*}"}], "tail"),
        (
            [{"from": "h.{i}.qkv.weight", "to": ["a", "b", "c", "d"]}, {"from": "{a*}", "drop": True}],
            "can't be applied",
        ),
        ([{"from": "a", "to": "{b}"}], "does not appear in 'from'"),
        ([{"from": ["a", "b"], "to": ["c", "d"]}], "joins or cuts"),
        ([{"from": "a"}], "'to' or 'drop'"),
        (None, "needs rules"),
    ],
)
def test_errors_write_nothing(tmp_path, given, words):
    torch.save(layered(), tmp_path / "s.pt")
    with pytest.raises(ConversionError, match=words):
        convert_checkpoint(tmp_path / "s.pt", tmp_path / "d.pdparams", rules=given)
    assert [p.name for p in tmp_path.iterdir()] == ["s.pt"]


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_shards(tmp_path, kind):
    state = layered()
    names = sorted(state)
    index = {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = tmp_path / "in" / f"model-{number}.{kind}"
        file.parent.mkdir(exist_ok=True)
        save(file, {n: state[n] for n in part})
        index.update(dict.fromkeys(part, file.name))
    (tmp_path / "in" / f"model.{kind}.index.json").write_text(json.dumps({"weight_map": index}))
    for source in (tmp_path / "in", tmp_path / "in" / f"model.{kind}.index.json"):
        convert_checkpoint(source, tmp_path / "all.bin", rules=SAME)
        check(tmp_path / "all.bin", state)
    (tmp_path / "in" / f"model-1.{kind}").unlink()
    with pytest.raises(ConversionError, match=f"model-1.{kind}"):
        convert_checkpoint(tmp_path / "in", tmp_path / "d.bin", rules=SAME)


def test_state_dict_inside_a_training_checkpoint(tmp_path):
    torch.save({"epoch": 3, "state_dict": layered(), "args": {"lr": 0.1}}, tmp_path / "c.pth")
    report = convert_checkpoint(tmp_path / "c.pth", tmp_path / "d.bin", rules=SAME)
    assert len(report.mapping) == len(layered()) and report.ignored == ["epoch", "args"]


class Evil:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


def test_pickles_of_strangers_run_nothing(tmp_path):
    mark = tmp_path / "ran"
    torch.save({"w": torch.zeros(1), "x": Evil(mark)}, tmp_path / "a.bin")
    torch.save(
        {"w": torch.zeros(1), "x": Evil(mark)}, tmp_path / "b.pth", _use_new_zipfile_serialization=False
    )
    (tmp_path / "c.pdparams").write_bytes(pickle.dumps({"w": np.zeros(1), "x": Evil(mark)}))
    (tmp_path / "d.pdparams").write_bytes(pickle.dumps({"w": np.array([Evil(mark)], dtype=object)}))
    for file in ("a.bin", "b.pth", "c.pdparams", "d.pdparams"):
        with pytest.raises(ConversionError):
            convert_checkpoint(tmp_path / file, tmp_path / "out.safetensors", rules=SAME)
    assert not mark.exists()


def test_broken_files(tmp_path):
    good = tmp_path / "g.safetensors"
    save(good, layered())
    data = good.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header["head"]["data_offsets"] = [0, 10**9]
    text = json.dumps(header).encode()
    cases = {
        "short.safetensors": data[:50],
        "cut.safetensors": data[:-8],
        "long.safetensors": b"\xff" * 8 + data[8:],
        "lie.safetensors": len(text).to_bytes(8, "little") + text,
        "text.bin": b"not a checkpoint",
        "text.pdparams": b"not a checkpoint",
        "empty.bin": b"",
        "what.xyz": b"",
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConversionError):
            convert_checkpoint(tmp_path / name, tmp_path / "out.bin", rules=SAME)
    with pytest.raises(ConversionError, match="there is no checkpoint"):
        convert_checkpoint(tmp_path / "absent.bin", tmp_path / "out.bin", rules=SAME)
    with pytest.raises(ConversionError, match="format"):
        convert_checkpoint(good, tmp_path / "out.what", rules=SAME)


def test_target_by_format(tmp_path):
    assert files.target(tmp_path / "a", "pdparams").name == "a.pdparams"
    assert files.target(tmp_path / "a.b", "torch").name == "a.b.bin"
    assert files.target(tmp_path / "a.bin", "safetensors").name == "a.safetensors"


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(9, 8)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True) for _ in range(2)
        )
        self.norm = torch.nn.BatchNorm1d(5)
        self.unused = torch.nn.Linear(2, 2)
        self.head = torch.nn.Linear(8, 9, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class PaddleNet(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.bn = paddle.nn.BatchNorm1D(5, data_format="NCL")
        self.table = paddle.nn.Embedding(9, 8)
        self.blocks = paddle.nn.LayerList(
            [paddle.nn.TransformerEncoderLayer(8, 2, 12, 0.0) for _ in range(2)]
        )

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return paddle.matmul(self.bn(x), self.table.weight, transpose_y=True)


IDS = {"ids": np.array([[1, 2, 3, 4, 5], [0, 8, 7, 6, 5]])}


def test_rules_found_from_models(tmp_path):
    torch.manual_seed(1)
    t, p = TorchNet().eval(), PaddleNet()
    p.eval()
    before = {k: v.numpy().copy() for k, v in p.state_dict().items()}
    found = rules_from_models(t, p, IDS)
    assert all(np.array_equal(before[k], v.numpy()) for k, v in p.state_dict().items())
    texts = [str(r) for r in found]
    assert any(
        "layers.{i}.self_attn.in_proj_weight" in x and "blocks.{i}.self_attn.v_proj.weight" in x
        for x in texts
    )
    assert len([x for x in texts if "linear1" in x]) == 2  # one for each parameter, not for each layer
    torch.save(t.state_dict(), tmp_path / "t.bin")
    convert_checkpoint(tmp_path / "t.bin", tmp_path / "p.pdparams", model=(t, p, IDS))
    rules.write(tmp_path / "r.toml", found)
    convert_checkpoint(tmp_path / "t.bin", tmp_path / "q.pdparams", rules=tmp_path / "r.toml", model=p)
    assert (tmp_path / "p.pdparams").read_bytes() == (tmp_path / "q.pdparams").read_bytes()
    p.set_state_dict(paddle.load(str(tmp_path / "p.pdparams")))
    assert compare(forward(t, IDS), forward(p, IDS)).close


def test_result_must_fit_the_model(tmp_path):
    t = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.save(t.state_dict(), tmp_path / "t.bin")
    p = paddle.nn.Sequential(paddle.nn.Linear(3, 2), paddle.nn.Linear(2, 2))
    with pytest.raises(
        ConversionError, match=r"nothing becomes 1\.weight.*; 0\.weight becomes \[2, 3\]|0\.weight becomes"
    ):
        convert_checkpoint(tmp_path / "t.bin", tmp_path / "p.pdparams", rules=SAME, model=p)


@pytest.mark.parametrize("source", [".bin", ".safetensors"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_one_tensor_at_a_time(tmp_path, source):
    """A checkpoint several times as large as the memory that converting it may take."""
    size = 8 << 20  # 32 MiB a tensor
    save(
        tmp_path / f"big{source}",
        {f"l.{i}.weight": torch.full((size >> 10, 1 << 10), float(i)) for i in range(12)},
    )
    assert _memory_to_convert(tmp_path / f"big{source}", tmp_path / "out.pdparams") < 160 << 10


def _memory_to_convert(source, target) -> int:
    """KiB by which the peak of a process of its own grows; ``ru_maxrss`` would begin at this process's."""
    program = (
        "from pathlib import Path\n"
        "from optrace.weights.convert import convert_checkpoint\n"
        "def peak(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "before = peak()\n"
        f"convert_checkpoint({str(source)!r}, {str(target)!r}, "
        "rules=[{'from': 'l.{i}.weight', 'to': 'l.{i}.w', 'transpose': True}])\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_two_gibibytes_take_less_than_one(tmp_path) -> None:
    shards = {}
    for shard in range(4):
        name = f"model-{shard + 1:05d}-of-00004.safetensors"
        own = {f"l.{8 * shard + i}.weight": torch.full((16384, 1024), float(i)) for i in range(8)}
        save(tmp_path / name, own)
        shards.update(dict.fromkeys(own, name))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    assert _memory_to_convert(index, tmp_path / "out.pdparams") < 1 << 20
    assert (tmp_path / "out.pdparams").stat().st_size > 2 << 30


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"from": "{1x}.w", "to": "w"}, "is no name"),
        ({"from": "{a}{b}", "to": "w"}, "can't be told"),
        ({"from": ".".join(f"{{a{i}*}}" for i in range(9)), "to": "w"}, "more than"),
        ({"from": "w", "to": "v", "sizes": [1.5]}, "whole numbers"),
        ({"from": 3, "to": "v"}, "a name or a list"),
    ],
)
def test_rules_that_can_not_be(rule: dict, text: str) -> None:
    with pytest.raises(ConversionError, match=text):
        rules.parse([rule])


def test_pickles_take_no_time_or_memory_for_what_they_announce(tmp_path) -> None:
    """Tuples of one tuple as a key, a memo of gigabytes, attributes of our own classes."""
    bomb = b"\x80\x04)" + b"q\x00h\x00h\x00\x86" * 60 + b"\x94}h\x00K\x01s."
    memo = b"\x80\x04}r\xff\xff\xff\x7f."
    attribute = b"\x80\x04cnumpy\nndarray\n(N}X\x01\x00\x00\x00aK\x01st\x86b."
    for name, data in (
        ("bomb", bomb),
        ("key", b"\x80\x04}" + b"K\x01" + b"\x85" * 3 + b"K\x01s."),
        ("attr", attribute),
    ):
        (tmp_path / f"{name}.pdparams").write_bytes(data)
        with pytest.raises(ConversionError):
            convert_checkpoint(tmp_path / f"{name}.pdparams", tmp_path / "out.safetensors")
    (tmp_path / "memo.pdparams").write_bytes(memo)
    with pytest.raises(ConversionError):
        convert_checkpoint(tmp_path / "memo.pdparams", tmp_path / "out.safetensors")
