"""The documentation says what is true: links lead somewhere, errors are complete, outputs are those that come out."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import optrace
from optrace import errors

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "op_mappings" / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        p.name for p in (ROOT / "docs").glob("*.md") if p.name != "README.md" and f"({p.name})" not in index
    ]
    assert missing == []


def test_every_error_is_documented() -> None:
    listed = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.M))
    ours = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.OptraceError)
    }
    assert listed == ours


def follows(shown: str, real: str) -> list[str]:
    """The lines of ``shown`` that ``real`` does not have in that order; ``...`` stands for any lines."""
    lines = iter(real.splitlines())
    wanted = [line for line in shown.strip().splitlines() if line != "..." and not line.startswith("$ ")]
    return [line for line in wanted if not any(line == got for got in lines)]


def console(page: str) -> list[str]:
    return re.findall(r"```console\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.S)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "tutorial.py"), run_name="tutorial")


def test_the_tutorial_finds_its_three_mistakes(example: dict[str, Any]) -> None:
    x = example["np"].random.RandomState(0).randn(2, 5, 16).astype("float32")
    report = optrace.auto_diff(example["TorchBlock"](), example["PaddleBlock"](), {"x": x})
    assert follows(console("tutorial.md")[0], str(report)) == []


def test_the_tutorials_suggestions_mend_it(example: dict[str, Any]) -> None:
    paddle = example["paddle"]

    class Mended(example["PaddleBlock"]):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = paddle.nn.LayerNorm(32, epsilon=1e-5)

        def forward(self, x: Any) -> Any:
            hidden = paddle.nn.functional.gelu(self.project(x), approximate=False)
            return paddle.nn.functional.softmax(self.out(self.norm(hidden)), axis=1)

    x = example["np"].random.RandomState(0).randn(2, 5, 16).astype("float32")
    report = optrace.auto_diff(example["TorchBlock"](), Mended(), {"x": x})
    assert follows(console("tutorial.md")[1], str(report)) == []
