"""Reports are as the shipped schema says."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import optrace
from optrace.report.jsonfile import as_dict
from optrace.report.model import Report


@pytest.fixture(scope="module")
def schema() -> Any:
    found = json.loads(resources.files("optrace.report").joinpath("report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.parametrize("which", ["good", "bad", "hostile"])
def test_reports_made_by_hand(which: str, schema: Any, request: pytest.FixtureRequest) -> None:
    schema.validate(as_dict(request.getfixturevalue(which)))


def test_a_real_report(schema: Any, tmp_path: Path) -> None:
    import paddle
    import torch

    base, raw = torch.nn.LayerNorm(4, eps=1e-5), paddle.nn.LayerNorm(4, epsilon=1e-4)
    report = optrace.auto_diff(base, raw, (np.random.RandomState(0).randn(2, 4).astype("float32"),))
    assert not report
    report.to_json(tmp_path / "report.json")
    schema.validate(json.loads((tmp_path / "report.json").read_text()))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [(["verdict"], 1), (["findings", 0, "kind"], "odd"), (["findings", 0, "error"], {}), (["aligned"], True)],
)
def test_the_schema_refuses_what_is_wrong(path: list[Any], wrong: Any, schema: Any, bad: Report) -> None:
    found = as_dict(bad)
    place: Any = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(found)
