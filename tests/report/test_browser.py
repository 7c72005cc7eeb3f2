"""The page in a real browser: nothing is requested, nothing goes wrong, filters, folding, jumping and keys work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from handmade import chain, linked

import optrace
from optrace.diagnose.findings import Evidence, Finding
from optrace.report.model import Report
from optrace.trace.records import Site

playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a Chromium on the PATH")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """An open report, and what it did that it should not have done."""

    def __init__(self, browser: Any, report: Report, path: Path) -> None:
        report.to_html(path)
        self.page = browser.new_page(viewport={"width": 1200, "height": 900})
        self.wrong: list[str] = []
        self.page.on("console", lambda said: self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda made: made.url.startswith("file:") or self.wrong.append(made.url))
        self.page.goto(path.as_uri())

    def count(self) -> str:
        return self.page.inner_text("#calls-count")

    def close(self) -> None:
        self.page.close()
        assert self.wrong == []


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[Page] = []

    def show(report: Report) -> Any:
        pages.append(Page(chromium, report, tmp_path / "report.html"))
        return pages[-1]

    yield show
    for page in pages:
        page.close()


def encoders(**change: Any) -> Report:
    """Two transformer encoder layers, torch against paddle."""
    import numpy as np
    import paddle
    import torch

    base = torch.nn.Sequential(
        *(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2))
    )
    raw = paddle.nn.Sequential(*(paddle.nn.TransformerEncoderLayer(8, 2, 16) for _ in range(2)))
    if change:
        raw[1].norm1._epsilon = change["epsilon"]
    x = np.random.RandomState(0).randn(2, 5, 8).astype("float32")
    return optrace.auto_diff(base, raw, (x,))


def test_a_pair_with_a_mistake(opened: Any) -> None:
    report = encoders(epsilon=7e-4)
    assert report.first is not None and report.first.argument == "eps"
    shown = opened(report)
    page = shown.page
    assert page.locator("h1").is_visible()
    assert "NOT ALIGNED" in page.inner_text("h1")
    # Histogram, heat map and the plot are drawn.
    assert page.locator("article .pictures svg rect").count() > 10
    assert page.locator("#calls-plot path").count() == 2
    page.click("article .jump")
    chosen = page.locator(".chosen")
    assert "layer_norm" in chosen.inner_text()
    assert chosen.is_visible()
    everything = shown.count()
    page.keyboard.press("f")
    assert shown.count() != everything
    assert page.locator(".call.module.cause").count() > 0
    page.locator(".call.module.cause button").first.click()
    page.keyboard.press("f")
    assert shown.count() == everything
    page.keyboard.press("/")
    page.keyboard.type("layer_norm")
    assert all("layer_norm" in row for row in page.locator(".call").all_inner_texts())
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    assert "layer_norm" in page.locator(".chosen").inner_text()
    page.select_option("#calls-state", "cause")
    assert shown.count().startswith("1 of ")
    page.evaluate("window.scrollTo(0, 0)")
    page.keyboard.press("j")
    box = page.locator("#calls-plot svg").bounding_box()
    page.mouse.wheel(0, 100)
    page.locator("#calls-plot svg").click(position={"x": box["width"] / 2, "y": 20})
    assert page.locator(".chosen").count() == 1


def test_a_pair_that_is_aligned(opened: Any) -> None:
    page = opened(encoders()).page
    assert page.inner_text("h1").startswith("ALIGNED")
    assert page.locator("article").count() == 0


def test_hostile_texts_do_nothing(opened: Any, hostile: Report) -> None:
    page = opened(hostile).page
    assert page.evaluate("document.scripts.length") <= 2
    assert "NOT ALIGNED" in page.inner_text("h1")


def test_a_hundred_thousand_calls_stay_smooth(opened: Any, site: Site) -> None:
    apis = ["relu", "tanh", "matmul", "add"] * 25_000
    base = chain("torch", [f"torch.{api}" for api in apis], site)
    raw = chain("paddle", [f"paddle.{api}" for api in apis], site)
    for i, call in enumerate(raw.calls):
        call.module = f"layers.{i // 1000}.block"
    finding = Finding("value", "another value", base=base.calls[70_000], raw=raw.calls[70_000])
    same = {i: i for i in range(len(apis))}
    report = linked(Report(base, raw, [finding], [], Evidence(compared=len(apis))), same)
    shown = opened(report)
    page = shown.page
    assert shown.count() == "100,000 of 100,000"
    assert page.locator(".call").count() < 100
    page.click("article .jump")
    assert "paddle.relu" in page.locator(".chosen").inner_text()
    assert page.locator(".call").count() < 100
    page.keyboard.press("f")
    assert page.locator(".call.module").count() == 1
    page.locator(".call.module button").click()
    assert page.locator(".call.module").count() > 5
