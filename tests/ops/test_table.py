"""Finding, reading and checking the files of the table."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from optrace import ops
from optrace.errors import OpTableError
from optrace.ops import files
from optrace.ops.table import Table, table

GOOD = """
[[op]]
name = "my_op"
torch = ["mylib.ops.swish(input, beta=1.0)"]
paddle = ["my_paddle.swish(x, beta=1.0)"]
args = {input = "x"}
reason = "a custom op"
"""


@pytest.fixture(autouse=True)
def fresh_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a test adds do not stay."""
    monkeypatch.setattr("optrace.ops.table._loaded", None)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_own_rows_load_quickly() -> None:
    start = time.perf_counter()
    assert len(table().rows) > 1000
    assert time.perf_counter() - start < 0.5  # the target is 0.15; a busy machine gets some room


def test_nothing_is_read_before_the_first_question() -> None:
    code = (
        "import sys, optrace.ops, optrace.ops.table as t; "
        "print(t._loaded, *(n in sys.modules for n in ('rtoml', 'torch')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["None", "False", "False"]


def test_user_rows(tmp_path: Path) -> None:
    ops.load(written(tmp_path, GOOD))
    assert ops.equivalents("mylib.ops.swish") == ("my_paddle.swish",)
    assert ops.equivalents("my_paddle.swish") == ("mylib.ops.swish",)
    assert ops.bind("my_paddle.swish", [1], {"beta": 2}) == {"x": 1, "beta": 2}
    found = ops.compare_arguments("mylib.ops.swish", {"beta": 2.0}, "my_paddle.swish", {})
    assert [(d.base_name, d.base_value, d.raw_value) for d in found] == [("beta", 2.0, 1.0)]


def test_user_rows_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTRACE_OPS", str(written(tmp_path, GOOD)))
    assert ops.same_job("mylib.ops.swish", "my_paddle.swish")


def test_a_name_asked_for_before_its_row_came(tmp_path: Path) -> None:
    assert ops.lookup("mylib.ops.swish") is None
    ops.load(written(tmp_path, GOOD))
    assert ops.lookup("mylib.ops.swish") is not None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[[op]]\ntorch = ["a.b(x)"]', ["row 1", "name"]),
        ('[[op]]\nname = "n"', ["row n", "no name on either side"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nkind = "magic"', ["row 1 (n)", "kind", "magic"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nspeed = 3', ["row 1 (n)", "speed"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x"]', ["row n", "torch", "a.b(x"]),
        ('[[op]]\nname = "n"\ntorch = "a.b"', ["row 1 (n)", "torch"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nargs = {x = 3}', ["row 1 (n)", "args"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nmeaning = "nonsense"', ["row n", "meaning", "nonsense"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nforms = {x = "nonsense"}', ["row n", "forms", "nonsense"]),
        (
            '[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nconvert = {x = "nonsense"}',
            ["row n", "convert", "nonsense"],
        ),
        ("op = 3", ["op"]),
        ("[[op", ["TOML"]),
        ('[[op]]\nname = "softmax"\ntorch = ["a.b(x)"]', ["row softmax", "name", "already taken"]),
    ],
)
def test_errors_name_the_file_the_row_and_the_field(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(OpTableError) as caught:
        ops.load(path)
    for part in (str(path), *parts):
        assert part in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OpTableError, match=r"nowhere\.toml"):
        ops.load(tmp_path / "nowhere.toml")


def test_the_table_is_found_inside_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "optrace" / "op_mappings"
    folder.mkdir(parents=True)
    (folder / "a.toml").write_text(GOOD)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "optrace" / "ops" / "files.py"))
    assert [p.name for p in files.own_files()] == ["a.toml"]
    (folder / "a.toml").unlink()
    folder.rmdir()
    with pytest.raises(OpTableError, match="reinstall"):
        files.own_files()


def test_every_signature_can_be_read() -> None:
    loaded = table()
    for row in loaded.rows:
        for framework in ("torch", "paddle"):
            for name in row.names(framework):
                assert loaded.signatures(name) or "*" in name


def test_rows_map_known_parameters() -> None:
    """``args``, ``forms``, ``values`` and the rest only speak of parameters that the signatures have."""
    problems = []
    for row in table().rows:
        known: dict[str, set[str]] = {"torch": set(), "paddle": set()}
        alone = Table([row])
        for framework in known:
            for name in row.names(framework):
                for _, signature in alone.signatures(name):
                    known[framework].update(signature.names)
        both = known["torch"] | known["paddle"]
        wrong = [n for n in row.args if n not in known["torch"]]
        wrong += [n for n in row.args.values() if n not in known["paddle"]]
        wrong += [n for field in (row.forms, row.values, row.convert) for n in field if n not in both]
        wrong += [n for n in row.assumes.torch if n not in known["torch"]]
        wrong += [n for n in row.assumes.paddle if n not in known["paddle"]]
        wrong += [n for e in row.examples for n in e if n not in known["torch"] and n != "grad"]
        wrong += [n for n in row.unexecuted if n not in row.names("torch") + row.names("paddle")]
        if wrong:
            problems.append(f"{row.name}: {wrong}")
    assert problems == []
