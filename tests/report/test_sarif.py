"""The SARIF log: results on raw's lines, relative to the working folder, safe whatever the names are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optrace.report.model import Report
from optrace.report.sarif import as_dict


def test_findings_stand_on_raws_lines(bad: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad.to_sarif(tmp_path / "out" / "report.sarif")
    log = json.loads((tmp_path / "out" / "report.sarif").read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    epsilon, missing, first_note, _ = run["results"]
    assert (epsilon["ruleId"], epsilon["level"]) == ("argument", "error")
    place = epsilon["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 3, "snippet": {"text": "return self.norm(x)"}}
    assert "epsilon is 1e-06" in epsilon["message"]["text"]
    assert "pass epsilon=1e-05" in epsilon["message"]["text"]
    assert epsilon["relatedLocations"][0]["message"]["text"] == "base: torch.nn.functional.layer_norm"
    # A call that raw lacks has base's line only.
    assert missing["locations"] and "relatedLocations" not in missing
    assert (first_note["ruleId"], first_note["level"]) == ("code-difference", "note")


def test_every_rule_is_declared(bad: Report) -> None:
    (run,) = as_dict(bad)["runs"]
    declared = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= declared
    assert run["tool"]["driver"]["version"]


def test_nothing_to_report(good: Report) -> None:
    assert as_dict(good)["runs"][0]["results"] == []


def test_a_file_elsewhere_keeps_its_path(
    bad: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    place = as_dict(bad)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"].startswith("file:///")
    assert "uriBaseId" not in place


def test_the_mark_survives_a_move_of_the_line(bad: Report) -> None:
    before = [r["partialFingerprints"] for r in as_dict(bad)["runs"][0]["results"]]
    for finding in bad.findings:
        for call in (finding.base, finding.raw):
            if call is not None and call.site is not None:
                call.site = type(call.site)(call.site.file, call.site.line + 7, "f", call.site.code)
    after = [r["partialFingerprints"] for r in as_dict(bad)["runs"][0]["results"]]
    assert before == after
    assert before[0] != before[1]


def test_hostile_texts_are_spelled_out(hostile: Report) -> None:
    text = json.dumps(as_dict(hostile), allow_nan=False, ensure_ascii=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u202e" in text
