"""The reference page is the one that the docstrings make."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "reference.py"), run_name="reference")["page"]()
    assert made == (DOCS / "reference.md").read_text(encoding="utf-8"), "run: make docs"
