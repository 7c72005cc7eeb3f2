"""The other commands: what they print, and their exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import optrace

MODEL = """
import sys
import numpy as np
import torch
import torch.nn.functional as F

x = torch.from_numpy(np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4))
w = torch.from_numpy(np.linspace(-1, 1, 16, dtype="float32").reshape(4, 4))
h = F.gelu(x @ w{form})
y = torch.softmax(h, dim=-1) @ w
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of one small program, of itself again, and of one with another argument."""
    folder = tmp_path_factory.mktemp("runs")
    for name, form in (("base", ""), ("same", ""), ("other", ", approximate='tanh'")):
        (folder / f"{name}.py").write_text(MODEL.format(form=form))
        command = [sys.executable, "-m", "optrace", "run", "-o", name, "--level", "full", f"{name}.py"]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def test_diff_of_aligned_traces(runs: Path, optrace_cli) -> None:
    done = optrace_cli("diff", runs / "base", runs / "same")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ALIGNED")


def test_diff_names_the_argument(runs: Path, optrace_cli, tmp_path: Path) -> None:
    done = optrace_cli("diff", runs / "base", runs / "other", "--html", "r/a.html", "--json", "r/a.json")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("NOT ALIGNED: 1 cause found")
    assert "approximate = 'tanh'" in done.stdout
    assert "other.py:9" in done.stdout
    assert "\x1b" not in done.stdout
    assert json.loads((tmp_path / "r" / "a.json").read_text())["findings"][0]["argument"] == "approximate"
    assert (tmp_path / "r" / "a.html").read_text().startswith("<!doctype html>")


def test_verbose_tells_what_is_done(runs: Path, optrace_cli) -> None:
    done = optrace_cli("-v", "diff", runs / "base", runs / "other")
    assert "calls of base against" in done.stderr
    assert optrace_cli("diff", runs / "base", runs / "other").stderr == ""


@pytest.mark.parametrize("words", [("base", "base"), ("base", "missing"), ("missing", "base")])
def test_diff_that_cannot_compare(runs: Path, optrace_cli, words: tuple[str, str]) -> None:
    done = optrace_cli("diff", *(runs / word for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("optrace: ")
    assert "Traceback" not in done.stderr


def test_show(runs: Path, optrace_cli) -> None:
    done = optrace_cli("show", runs / "base")
    assert done.returncode == 0, done.stderr
    for part in ("level full", "torch 2.", "torch.nn.functional.gelu(", "float32[3, 4]", "base.py:9"):
        assert part in done.stdout, part


def test_show_filters(runs: Path, optrace_cli) -> None:
    done = optrace_cli("show", runs / "base", "--api", "softmax")
    assert "softmax" in done.stdout
    assert "gelu" not in done.stdout
    assert "no such call" in optrace_cli("show", runs / "base", "--module", "nowhere").stdout


def test_show_one_call(runs: Path, optrace_cli) -> None:
    call = next(c for c in optrace.load(runs / "base").calls if c.api.endswith("gelu"))
    done = optrace_cli("show", runs / "base", call.id)
    assert done.returncode == 0, done.stderr
    for part in ("torch.nn.functional.gelu", "> h = F.gelu(x @ w)", "arguments", "outputs", "rms"):
        assert part in done.stdout, part
    assert optrace_cli("show", runs / "base", 9999).returncode == 2


def test_ops(in_process) -> None:
    assert "activation" in in_process("ops")[1]
    _, shown = in_process("ops", "torch.nn.functional.gelu")
    assert "paddle.nn.functional.gelu" in shown
    assert "approximate" in shown
    assert "max_pool2d" in in_process("ops", "pool")[1]
    status, shown = in_process("ops", "no_such_call")
    assert status == 2
    assert "no row" in shown


def test_ops_reads_a_users_table(optrace_cli, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        '[[op]]\nname = "own_scale"\ntorch = ["own.scale(x, by)"]\npaddle = ["theirs.scale(x, by)"]\n'
    )
    done = optrace_cli("ops", "own.scale", OPTRACE_OPS=str(tmp_path / "own.toml"))
    assert "theirs.scale" in done.stdout
    (tmp_path / "own.toml").write_text("[[op]]\nnames = 3\n")
    done = optrace_cli("ops", OPTRACE_OPS=str(tmp_path / "own.toml"))
    assert done.returncode == 2
    assert "own.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor(optrace_cli) -> None:
    done = optrace_cli("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("torch 2.", "paddle 3.", "patched while tracing", "everything put back  "):
        assert part in done.stdout, part


def test_demo_small_pair(optrace_cli) -> None:
    done = optrace_cli("demo", "small_pair")
    assert done.returncode == 0, done.stderr
    assert "ALIGNED: no difference found" in done.stdout
    assert "NOT ALIGNED: 1 cause found" in done.stdout
    assert "axis = 1" in done.stdout


def test_demo_falls_back_where_transformers_does_not_load(optrace_cli, tmp_path: Path) -> None:
    broken = tmp_path / "elsewhere" / "transformers"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('tokenizers>=0.22 is required')")
    done = optrace_cli("demo", PYTHONPATH=f"{broken.parent}{os.pathsep}{Path(__file__).parents[2]}")
    assert done.returncode == 0, done.stderr
    assert "axis = 1" in done.stdout
    assert "resnet18 is left out" in done.stderr and "tokenizers>=0.22" in done.stderr
    named = optrace_cli(
        "demo", "resnet18", PYTHONPATH=f"{broken.parent}{os.pathsep}{Path(__file__).parents[2]}"
    )
    assert named.returncode == 2
    assert "Traceback" not in named.stderr


def test_demo_unknown(in_process) -> None:
    assert in_process("demo", "nothing")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "bert_block"])
def test_demo_of_published_models(optrace_cli, name: str) -> None:
    done = optrace_cli("demo", name)
    assert done.returncode == 0, done.stderr
    assert "NOT ALIGNED: 1 cause found" in done.stdout


def test_convert_reports_a_missing_file(optrace_cli) -> None:
    done = optrace_cli("convert", "missing.safetensors", "out.pdparams")
    assert done.returncode == 2
    assert "missing.safetensors" in done.stderr
    assert "Traceback" not in done.stderr


def test_audit_names_generator_distribution_and_remarks(optrace_cli, tmp_path: Path) -> None:
    script = tmp_path / "draws.py"
    script.write_text(
        "import torch\nimport torch.nn.functional as F\n"
        "torch.rand(3, generator=torch.Generator().manual_seed(3))\n"
        "class Wrong(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return F.dropout(x, 0.2)\n"
        "Wrong().eval()(torch.ones(3))\n"
    )
    done = optrace_cli("audit", script)
    assert done.returncode == 0, done.stderr
    assert "2 random calls, 2 with effect" in done.stdout
    rows = {words[0]: " ".join(words) for row in done.stdout.splitlines() if (words := row.split())}
    assert "yes uniform given (seed 3) yes 1" in rows["torch.rand"]
    assert "yes bernoulli mask 0.2 default no 1" in rows["torch.nn.functional.dropout"]
    assert "pass training=self.training" in rows["note:"]


@pytest.mark.parametrize("command", ["", "run", "diff", "show", "audit", "convert", "ops", "doctor", "demo"])
def test_help_teaches(in_process, command: str) -> None:
    status, shown = in_process(*([command] if command else []), "--help")
    assert status == 0
    if command != "doctor":
        assert "optrace " in shown
    if command not in ("", "doctor"):
        assert "Examples:" in shown


def test_version(in_process) -> None:
    assert in_process("--version") == (0, f"optrace {optrace.__version__}\n")
