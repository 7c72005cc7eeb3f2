"""What people read of the table: the page of differences, ``optrace ops``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from optrace.cli import app
from optrace.errors import OpTableError
from optrace.ops.describe import Line, parameters
from optrace.ops.differences import default_differences, page
from optrace.ops.files import own_files, read
from optrace.ops.table import table

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
OWN = """
[[op]]
name = "own_scale"
torch = ["own.scale(x, by=1.0)"]
paddle = ["theirs.scale(x, by=2.0)"]
reason = "a custom op"
"""


@pytest.fixture(autouse=True)
def fresh_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a test adds do not stay."""
    monkeypatch.setattr("optrace.ops.table._loaded", None)


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, ["ops", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_page_of_differences_is_up_to_date() -> None:
    rows = [row for path in own_files() for row in read(path)]
    assert PAGE.read_text(encoding="utf-8") == page(rows), (
        "run optrace ops --differences > docs/differences.md"
    )


def test_the_page_holds_every_sentence() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\\", "")
    assert [d for row in table().rows for d in row.differences if d not in text] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grid_sample", ("align_corners", None, "align_corners", True)),
        ("svd", ("full_matrices", True, "full_matrices", False)),
        ("gather", ("", False, "broadcast", True)),
        ("median", ("", "min", "mode", "avg")),
    ],
)
def test_defaults_that_differ(name: str, expected: tuple[str, object, str, object]) -> None:
    assert expected in [tuple(d) for d in default_differences(table().by_name[name])]


@pytest.mark.parametrize("name", ["batch_norm", "relu", "layer_norm", "conv2d"])
def test_defaults_that_mean_the_same(name: str) -> None:
    assert default_differences(table().by_name[name]) == []


def test_parameters_stand_side_by_side() -> None:
    lines = parameters(table().by_name["batch_norm"])
    assert Line("momentum=0.1", "momentum=0.9", "1 - value") in lines
    assert Line("eps=1e-05", "epsilon=1e-05", "") in lines
    lines = parameters(table().by_name["grid_sample"])
    corners = next(p for p in lines if p.torch == "align_corners=None")
    assert corners.paddle == "align_corners=True"
    assert "OTHER DEFAULT" in corners.note
    assert any("axes [1, 0]" in line.note for line in parameters(table().by_name["linear"]))


def test_a_row_is_shown_with_an_example() -> None:
    text = shown("torch.nn.functional.avg_pool2d")
    for part in (
        "count_include_pad=True          exclusive=True",
        "torch._C._nn.avg_pool2d",
        "By default torch counts the padding in",
        "torch.nn.functional.avg_pool2d(torch.tensor(input), ",
        "paddle.nn.functional.avg_pool2d(paddle.to_tensor(input), ",
    ):
        assert part in text


def test_stats_count_rows_and_reasons() -> None:
    text = shown("--stats")
    for part in (
        "rows run forward",
        "rows run backward too",
        "names of torch",
        "are tensor calls",
        "no tensor call",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("torch.nn.functional.sofmax", "torch.nn.functional.softmax"),
        ("paddle.concatt", "paddle.concat"),
        ("torch.nn.Con2d", "torch.nn.Conv2d"),
        ("permutte", "torch.permute"),
    ],
)
def test_an_unknown_name_is_told_its_neighbours(written: str, meant: str) -> None:
    found = CliRunner().invoke(app, ["ops", written])
    assert found.exit_code == 2
    assert meant in " ".join(found.output.split())


def test_the_page_is_printed() -> None:
    assert shown("--differences") == PAGE.read_text(encoding="utf-8")


def test_own_rows_by_option(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    text = shown("--ops", str(path), "own.scale")
    assert "theirs.scale" in text
    assert "OTHER DEFAULT" in text


@pytest.mark.parametrize("words", [["ops"], ["diff", "a", "b"]])
def test_a_mistake_in_own_rows_is_named(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN + 'args = {x = "z"}\n')
    with pytest.raises(OpTableError, match=r"own\.toml: row own_scale, field args: 'z'"):
        CliRunner().invoke(app, [*words, "--ops", str(path)], catch_exceptions=False)
