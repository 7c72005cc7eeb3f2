"""The README in both languages, and the public names it stands for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import optrace

ROOT = Path(__file__).parents[2]


def told(page: str) -> tuple[list[str], list[str]]:
    """The fenced blocks and the links of a README."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n.*?^```", text, re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)", text)
    return blocks, [link for link in links if not link.startswith("README")]


def test_both_languages_have_the_same_code_and_links() -> None:
    assert told("README.zh.md") == told("README.md")


def test_the_chinese_readme_leads_somewhere() -> None:
    for link in told("README.zh.md")[1]:
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("name", [n for n in optrace.__all__ if n != "__version__"])
def test_every_public_name_is_told(name: str) -> None:
    assert getattr(optrace, name).__doc__
