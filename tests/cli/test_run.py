"""``optrace run`` runs a program as ``python`` would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import optrace
from optrace.cli.run import separated

FACTS = """
import json, sys
print(json.dumps([__name__, sys.argv, sys.path[0], __file__, __package__, __spec__ and __spec__.name]))
import helper
import __main__
assert __main__.__dict__ is globals()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("")
    (tmp_path / "sub" / "facts.py").write_text(FACTS)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(FACTS)
    (tmp_path / "helper.py").write_text("")
    return tmp_path


def as_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("sub/facts.py",),
        ("sub/facts.py", "--epochs", "3", "-o", "x", "--", "--help"),
        ("-m", "package"),
        ("-m", "package", "-o", "x", "--level", "--help", "--", "y"),
    ],
)
def test_the_program_sees_what_python_gives_it(folder: Path, optrace_cli, words: tuple[str, ...]) -> None:
    plain = as_python(folder, *words)
    traced = optrace_cli("run", "-o", "out", "--level", "meta", *words)
    assert plain.returncode == 0, plain.stderr
    assert traced.returncode == 0, traced.stderr
    assert traced.stdout == plain.stdout


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('stopped')", 1),
        ("import sys; sys.exit(3)", 3),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", 130),
        ("import optrace; raise optrace.WeightError('its own')", 1),
    ],
)
def test_exit_status_and_messages_pass_through(folder: Path, optrace_cli, body: str, status: int) -> None:
    (folder / "script.py").write_text(f"def f():\n    {body or 'pass'}\nf()\n")
    traced = optrace_cli("run", "-o", "out", "script.py")
    assert traced.returncode == status, traced.stderr
    plain = as_python(folder, "script.py") if "optrace" not in body else None
    ours = "\n".join(line for line in traced.stderr.splitlines() if not line.startswith("optrace: "))
    if plain is not None:
        # A relative script name is shown as given by both, with no frame of ours.
        assert ours.replace(f"{folder}/", "") == plain.stderr.rstrip("\n").replace(f"{folder}/", "")
    assert (folder / "out").exists()


def test_a_killed_program_leaves_a_readable_trace(folder: Path, optrace_cli) -> None:
    body = "import torch, os, signal\nx = torch.ones(3)\ny = x + x\nos.kill(os.getpid(), signal.SIGKILL)\n"
    (folder / "script.py").write_text(body)
    assert optrace_cli("run", "-o", "out", "script.py").returncode == -signal.SIGKILL
    assert "torch.Tensor.__add__" in [call.api for call in optrace.load(folder / "out").calls]


def test_a_failing_program_leaves_its_trace(folder: Path, optrace_cli) -> None:
    body = "import torch\nx = torch.ones(3)\ny = x + x\nx @ torch.ones(7)\n"
    (folder / "script.py").write_text(body)
    done = optrace_cli("run", "-o", "out", "script.py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("Traceback")
    calls = optrace.load(folder / "out").calls
    assert calls[-1].api == "torch.Tensor.__matmul__"
    assert calls[-1].error is not None
    assert calls[-1].site is not None
    assert calls[-1].site.line == 4
    assert optrace.load(folder / "out").meta["argv"] == ["script.py"]


def test_both_frameworks_imported_by_the_program_are_traced(folder: Path, optrace_cli) -> None:
    body = "import torch\ntorch.ones(2).relu()\nimport paddle\npaddle.nn.functional.relu(paddle.ones([2]))\n"
    (folder / "script.py").write_text(body)
    done = optrace_cli("run", "script.py")
    assert done.returncode == 0, done.stderr
    trace = optrace.load(folder / "script.optrace")
    assert trace.frameworks == ("paddle", "torch")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("missing.py",), "can't open missing.py"),
        (("sub",), "is a folder"),
        (("-m", "no_such_module"), "no module named no_such_module"),
        (("-m", "sub"), "without __main__"),
        (("--level", "all", "sub/facts.py"), "--level is one of"),
        ((), "name a script"),
    ],
)
def test_mistakes_get_one_clear_line(folder: Path, optrace_cli, words: tuple[str, ...], text: str) -> None:
    done = optrace_cli("run", *words)
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_script_that_does_not_parse(folder: Path, optrace_cli) -> None:
    (folder / "script.py").write_text("def (:\n")
    done = optrace_cli("run", "script.py")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "-m", "a.b", "-o", "x"], ["run", "-m", "a.b", "--", "-o", "x"]),
        (["run", "-o", "-m", "-m", "a"], ["run", "-o", "-m", "-m", "a", "--"]),
        (["run", "x.py", "-m", "a"], ["run", "x.py", "-m", "a"]),
        (["run", "--level", "full", "x.py"], ["run", "--level", "full", "x.py"]),
        (["diff", "-m", "a"], ["diff", "-m", "a"]),
        ([], []),
    ],
)
def test_words_after_a_module_are_its_own(words: list[str], expected: list[str]) -> None:
    assert separated(words) == expected


def test_it_starts_without_frameworks(folder: Path, optrace_cli) -> None:
    (folder / "script.py").write_text("import sys\nprint({'torch', 'paddle'} & set(sys.modules))\n")
    assert optrace_cli("run", "script.py").stdout == "set()\n"
    assert os.path.isdir(folder / "script.optrace")


def test_an_older_trace_is_replaced_only_when_asked(folder: Path, optrace_cli) -> None:
    (folder / "script.py").write_text("import torch\ntorch.ones(1)\n")
    (folder / "other.py").write_text("import torch\nprint('ran')\ntorch.ones(1) + 1\n")
    assert optrace_cli("run", "-o", "out", "script.py").returncode == 0
    refused = optrace_cli("run", "-o", "out", "other.py")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert "ran" not in refused.stdout, "nothing was run"
    assert len(optrace.load(folder / "out").calls) == 1
    assert optrace_cli("run", "--force", "-o", "out", "other.py").returncode == 0
    assert len(optrace.load(folder / "out").calls) == 2
    for _ in range(2):  # the folder nobody named holds the latest run
        assert optrace_cli("run", "script.py").returncode == 0


def test_an_exception_is_located_where_the_program_raised_it(folder: Path, optrace_cli) -> None:
    body = "import torch\ndef look(x):\n    y = torch.relu(x)\n    return {}['gone']\n\nlook(torch.ones(1))\n"
    (folder / "script.py").write_text(body)
    assert optrace_cli("run", "-o", "out", "script.py").returncode == 1
    meta = optrace.load(folder / "out").meta
    assert meta["ended"] == "KeyError: 'gone'"
    assert meta["ended_at"].endswith("script.py:4 in look")
    assert "KeyError: 'gone' at" in optrace_cli("show", "out").stdout


def test_what_could_not_be_seen_is_named_once(folder: Path, optrace_cli) -> None:
    body = "import torch\nf = torch.compile(torch.relu, backend='eager')\nfor _ in range(3):\n    f(torch.ones(1))\n"
    (folder / "script.py").write_text(body)
    done = optrace_cli("run", "-o", "out", "script.py")
    said = [line for line in done.stderr.splitlines() if "not traced" in line]
    assert len(said) == 1
    assert "torch.compile" in said[0]
    assert "3 times" in said[0]
    assert "torch.compile" in optrace_cli("show", "out").stdout
