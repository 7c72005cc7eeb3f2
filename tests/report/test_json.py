"""The JSON report: strict, complete, as documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optrace.errors import OptraceError
from optrace.report.model import Report

DOCUMENT = Path(__file__).parents[2] / "docs" / "report-json.md"


def load(report: Report, path: Path) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    report.to_json(path)
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_a_bad_report(bad: Report, tmp_path: Path) -> None:
    found = load(bad, tmp_path / "folder" / "report.json")
    assert (found["schema"], found["version"], found["aligned"]) == ("optrace-report", 1, False)
    first = found["findings"][0]
    assert first["argument"] == "epsilon"
    assert first["raw"]["api"] == "paddle.nn.functional.layer_norm"
    assert first["raw"]["site"]["line"] == 3
    assert first["raw"]["site"]["code"] == "return self.norm(x)"
    assert first["raw"]["arguments"]["epsilon"] == 1e-6
    assert first["error"]["local"]["max_rel"] == "inf"
    assert first["error"]["observed"]["max_abs"] == "nan"
    assert first["differences"][0]["base_value"] == 1e-5
    assert found["findings"][1]["raw"] is None
    assert found["evidence"]["beyond_reasons"] == {"sparse": 3}


def test_an_aligned_report(good: Report, tmp_path: Path) -> None:
    found = load(good, tmp_path / "report.json")
    assert found["aligned"] is True
    assert found["findings"] == []


def test_hostile_text_survives(hostile: Report, tmp_path: Path) -> None:
    assert load(hostile, tmp_path / "report.json")["findings"][0]["differences"][0]["raw_value"] == "nan"


def test_every_field_is_documented(bad: Report, tmp_path: Path) -> None:
    found = load(bad, tmp_path / "report.json")
    text = DOCUMENT.read_text(encoding="utf-8")
    first = found["findings"][0]
    named = [*found, *found["raw"], *first, *first["raw"], *first["raw"]["site"], *first["differences"][0]]
    named += [*first["error"]["local"], *first["spread"], *found["evidence"], *found["warnings"][0]]
    assert [name for name in dict.fromkeys(named) if name not in text] == []


def test_a_place_that_cannot_be_written(good: Report, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptraceError, match="can't be written"):
        good.to_json(tmp_path / "file" / "report.json")
