"""What a notebook shows of reports and traces."""

from __future__ import annotations

from html.parser import HTMLParser

from optrace.report.model import Report
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef


class Tags(HTMLParser):
    """Tags, and the page inside the frame."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inner = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inner = dict(attrs).get("srcdoc") or self.inner


def test_a_report_is_one_frame_with_the_page_in_it(bad: Report, hostile: Report) -> None:
    for report in (bad, hostile):
        found = Tags(report._repr_html_())
        assert found.tags == ["iframe"]
        assert found.inner.startswith("<!doctype html>") or found.inner.startswith("<!DOCTYPE html>")
        assert "NOT ALIGNED" in found.inner


def test_a_trace_is_a_table_of_calls() -> None:
    trace = Trace("meta")
    trace.meta["versions"] = {"torch": "2.13"}
    for i in range(250):
        trace.append(Call(i, "torch.relu", "torch", [], {}, TensorRef(i, 0, (2, 3), "float32")))
    text = trace._repr_html_()
    assert Tags(text).tags.count("tr") == 201
    assert "float32[2, 3]" in text
    assert "and 50 more" in text


def test_hostile_names_stay_text() -> None:
    trace = Trace("meta")
    trace.append(Call(0, "<script>alert(1)</script>\x1b\u202e", "torch", [], {}, module="<b>"))
    text = trace._repr_html_()
    assert "script" not in Tags(text).tags
    assert "\x1b" not in text and "\u202e" not in text
