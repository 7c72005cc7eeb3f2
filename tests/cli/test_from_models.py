"""``optrace convert`` with rules found from two models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

PORT = """
import numpy, paddle, torch

def models():
    base = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 2))
    raw = paddle.nn.Sequential(paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6), paddle.nn.Linear(6, 2))
    return base, raw, (numpy.ones((3, 6), "float32"),)

def wrong():
    return 3

def broken():
    raise KeyError("no such layer")
"""


@pytest.fixture
def port(tmp_path: Path) -> Path:
    (tmp_path / "port.py").write_text(PORT)
    layers = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 2)
    torch.save(torch.nn.Sequential(*layers).state_dict(), tmp_path / "a.bin")
    return tmp_path


def test_rules_are_found_written_and_read_again(optrace_cli: Callable[..., Any], port: Path) -> None:
    done = optrace_cli(
        "convert", "a.bin", "a.pdparams", "--from-models", "port.py:models", "--save-rules", "r.toml"
    )
    assert done.returncode == 0, done.stderr
    assert "6 tensors became 6" in done.stdout and "transposed" in done.stdout
    rules = (port / "r.toml").read_text()
    assert (
        rules.startswith("# a.bin to a.pdparams") and 'from = "0.weight"' in rules
    ) or "{i}.weight" in rules
    again = optrace_cli("convert", "a.bin", "b.pdparams", "--rules", "r.toml")
    assert again.returncode == 0, again.stderr
    assert (port / "a.pdparams").read_bytes() == (port / "b.pdparams").read_bytes()


def test_what_can_be_wrong_with_the_function(optrace_cli: Callable[..., Any], port: Path) -> None:
    for where, says in (
        ("port.py:wrong", "must return"),
        ("port.py:none", "has no function none"),
        ("port.py", "write file.py:function"),
        ("nowhere.py:models", "can't be imported"),
        ("port.py:broken", "KeyError"),
    ):
        done = optrace_cli("convert", "a.bin", "a.pdparams", "--from-models", where)
        assert done.returncode == 2 and says in " ".join(done.stderr.split())
        assert not (port / "a.pdparams").exists()
