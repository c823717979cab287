"""Reports with pictures in a real browser: phone, screen and print, and the buttons of maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.report.test_browser import opened
from tests.report.test_run import HOSTILE
from tests.report.vision_runs import write_classification, write_segmentation

from concrete_dropout.report import build_run_report

WRITERS = {"classification": write_classification, "segmentation": write_segmentation}


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_report_is_drawn_and_quiet(browser: Any, tmp_path: Path, kind: str, width: int) -> None:
    report = build_run_report(WRITERS[kind](tmp_path / "run"))
    with opened(browser, report, width) as (page, requests, complaints):
        assert page.locator(".plot:has(svg.main-svg)").count() == page.locator(".plot").count() > 0
        # The policy lets pictures in, and they are whole.
        shown = page.evaluate("Array.from(document.images, i => i.complete && i.naturalWidth > 0)")
        assert shown
        assert all(shown)
        assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
        assert complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        edges = page.evaluate(
            "Array.from(document.querySelectorAll('img, .plot svg.main-svg, .tick'), "
            "e => e.getBoundingClientRect().right)"
        )
        assert max(edges) <= width
        assert page.locator("img:not([alt])").count() == 0


def visible(page: Any) -> set[str]:
    found: list[str] = page.evaluate(
        "Array.from(document.querySelectorAll('.maps img'), i => i.offsetParent === null ? '' : i.alt)"
    )
    return {alt for alt in found if "val image 3" in alt}


@pytest.mark.parametrize("javascript", [True, False])
def test_buttons_choose_the_step(browser: Any, tmp_path: Path, javascript: bool) -> None:
    report = build_run_report(write_segmentation(tmp_path / "run"))
    with opened(browser, report, java_script_enabled=javascript) as (page, _, _):
        kinds = ("Prediction", "Epistemic", "Aleatoric", "Error")
        fixed = {f"{kind} of val image 3" for kind in ("Input", "Ground truth")}
        if javascript:
            assert visible(page) == fixed | {f"{kind} of val image 3 at step 600" for kind in kinds}
        page.locator(".steps label", has_text="200").click()
        assert page.locator('img[alt="Error of val image 3 at step 200"]').is_visible()
        assert not page.locator('img[alt="Error of val image 3 at step 600"]').is_visible()
        page.keyboard.press("ArrowLeft")
        assert page.locator('img[alt="Error of val image 3 at step 50"]').is_visible()
        # Test images have one step, which is always shown.
        assert page.locator('img[alt="Error of test image 2 at step 600"]').is_visible()


@pytest.mark.parametrize("kind", WRITERS)
def test_hostile_names_are_shown_and_not_run(browser: Any, tmp_path: Path, kind: str) -> None:
    names = tuple(f"{i}{HOSTILE}" for i in range(11))
    report = build_run_report(WRITERS[kind](tmp_path / "run", names=names))  # type: ignore[operator]
    with opened(browser, report) as (page, requests, complaints):
        assert complaints == []
        assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
        assert page.locator("img:not([src^='data:image/png;base64,'])").count() == 0
        assert page.locator(".plot svg a").count() == 0
        assert f"1{HOSTILE}" in page.locator("main").inner_text()


def test_print(browser: Any, tmp_path: Path) -> None:
    report = build_run_report(write_segmentation(tmp_path / "run"))
    with opened(browser, report) as (page, _, complaints):
        assert page.pdf(format="A4").startswith(b"%PDF")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 680, "height": 900})
        assert max(page.evaluate("Array.from(document.images, i => i.getBoundingClientRect().right)")) <= 680
        # Of the buttons the chosen one says which step is printed.
        assert page.locator(".steps span:visible").all_inner_texts() == ["600"]
        assert complaints == []
