"""Finding, reading and checking the files of the table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optrace import ops
from optrace.errors import OpTableError
from optrace.ops import files
from optrace.ops.checks import problems
from optrace.ops.table import table

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


def test_own_rows_load() -> None:
    assert len(table().rows) > 1000


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


class FakeEntryPoint:
    name, value = "mine", "mine:FILES"

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def packaged(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [FakeEntryPoint(found)] if group == "optrace.ops" else [],
    )


@pytest.mark.parametrize("how", [str, Path, lambda path: [path], lambda path: lambda: [str(path)]])
def test_user_rows_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Callable[[Path], object]
) -> None:
    packaged(monkeypatch, how(written(tmp_path, GOOD)))
    assert ops.same_job("mylib.ops.swish", "my_paddle.swish")


@pytest.mark.parametrize("found", [ImportError("no mylib"), 3, None])
def test_an_entry_point_without_a_file_is_named(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    packaged(monkeypatch, found)
    with pytest.raises(OpTableError, match=r"mine = mine:FILES of group optrace\.ops"):
        table()


def test_an_installed_package_brings_rows(tmp_path: Path) -> None:
    """A real distribution on the path, in a fresh process."""
    (tmp_path / "mylib.py").write_text(
        "import pathlib\nOPS = pathlib.Path(__file__).with_name('mine.toml')\n"
    )
    written(tmp_path, GOOD)
    info = tmp_path / "mylib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[optrace.ops]\nmine = mylib:OPS\n")
    code = "from optrace import ops; print(*ops.equivalents('mylib.ops.swish'))"
    paths = os.pathsep.join([str(tmp_path), str(Path(ops.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": paths}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.split() == ["my_paddle.swish"]


def test_a_file_with_a_mistake_adds_no_row(tmp_path: Path) -> None:
    with pytest.raises(OpTableError, match="already taken"):
        ops.load(written(tmp_path, GOOD + GOOD))
    assert ops.lookup("mylib.ops.swish") is None


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
        ('[[op]]\nname = "n"\ntorch = ["a.b(x, =)"]', ["row n", "torch", "a.b(x, =)"]),
        ('[[op]]\nname = "n"\ntorch = ["a.b(x, y=z)"]', ["row n", "torch", "not a literal"]),
        (
            '[[op]]\nname = "n"\ntorch = ["a.b(x)"]\npaddle = ["c.d(y)"]\nargs = {x = "z"}',
            ["row n", "args", "'z'"],
        ),
        (
            '[[op]]\nname = "n"\ntorch = ["a.b(x)"]\nassumes.paddle = {u = 1}',
            ["row n", "assumes.paddle", "'u'"],
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
    assert [(row.name, *found) for row in table().rows for found in problems(row)] == []
