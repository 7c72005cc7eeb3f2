"""The HTML report: one file, nothing loaded, nothing injected."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handmade import chain, linked

from optrace.diagnose.findings import Evidence
from optrace.report.html import render
from optrace.report.model import Report
from optrace.report.rows import facing
from optrace.trace.records import Site

_VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})


class Page(HTMLParser):
    """Tags, attributes and text; checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_tells_the_finding(bad: Report) -> None:
    page = Page(render(bad))
    for part in (
        "NOT ALIGNED: 2 causes found",
        "argument epsilon of paddle.nn.functional.layer_norm",
        "encoder.0.norm (LayerNorm)",
        "return self.norm(x)",
        "x = self.linear(x)",
        "pass epsilon=1e-05",
        "no counterpart",
        "scale written otherwise (2 times)",
        "torch 1.2.3",
    ):
        assert part in page.text, part


def test_the_differing_argument_is_marked(bad: Report) -> None:
    text = render(bad)
    row = text[text.index('<tr class="differs">') :]
    assert all(part in row[: row.index("</tr>")] for part in ("eps", "1e-05", "epsilon", "1e-06"))


def test_an_aligned_report(good: Report) -> None:
    assert "ALIGNED: no difference found" in Page(render(good)).text


def test_nothing_is_loaded(bad: Report) -> None:
    page = Page(render(bad))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert [
        value
        for name, value in page.attributes
        if name in ("src", "href") and not (value or "").startswith("#")
    ] == []


def test_hostile_text_stays_text(hostile: Report) -> None:
    text = render(hostile)
    page = Page(text)
    # Only the two scripts of ours, and the first holds nothing but data.
    assert page.tags.count("script") == 2
    assert "alert(1)" in page.text
    assert "{{ 7*7 }}" in page.text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


def test_calls_face_each_other(side_by_side: Report) -> None:
    found = [
        (row.state, row.base.api if row.base else None, row.raw.api if row.raw else None)
        for row in facing(side_by_side)
    ]
    assert found == [
        ("equal", "torch.a", "paddle.a"),
        ("group", None, "paddle.grouped"),
        ("base", "torch.only", None),
        ("equal", "torch.c", "paddle.c"),
        ("raw", None, "paddle.more"),
    ]


def test_the_list_of_calls_is_data(side_by_side: Report) -> None:
    text = render(side_by_side)
    start = text.index('id="calls-data">') + len('id="calls-data">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert len(data["rows"]) == 5
    state, base, raw = data["rows"][0]
    assert data["states"][state] == "equal"
    assert [data["texts"][side[1]] for side in (base, raw)] == ["torch.a", "paddle.a"]


def test_the_page_allows_its_own_script_alone(side_by_side: Report) -> None:
    text = render(side_by_side)
    start = text.rindex("<script>") + len("<script>")
    digest = hashlib.sha256(text[start : text.rindex("</script>")].encode()).digest()
    assert f"script-src &#39;sha256-{base64.b64encode(digest).decode()}" in text.replace("'", "&#39;")


@pytest.mark.slow
def test_many_calls_make_a_page_of_bearable_size(site: Site) -> None:
    apis = [f"torch.call{i % 50}" for i in range(100_000)]
    sides = (chain(side, apis, site) for side in ("torch", "paddle"))
    report = linked(Report(*sides, [], [], Evidence()), {i: i for i in range(100_000)})
    assert len(render(report)) < 10_000_000


def test_it_is_written(bad: Report, tmp_path: Path) -> None:
    bad.to_html(tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8") == render(bad)
