"""Reports in a real browser: all figures drawn, no request, nothing runs that should not, phone and print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.report.replica_runs import SIZES, STARTS, write_replicas, write_study
from tests.report.runs import write_killed_run, write_run
from tests.report.test_run import HOSTILE, write_hostile

from concrete_dropout.report import build_run_report

VARIANTS: dict[str, Any] = {
    "complete": write_run,
    "killed": write_killed_run,
    "fixed": lambda path: write_run(path, dropout="fixed"),
    "sixty layers": lambda path: write_run(path, num_layers=60, inputs=3, outputs=("a", "b")),
    "splits": write_replicas,
    "amounts of data": lambda path: write_replicas(path, SIZES),
    "initial p": lambda path: write_replicas(path, STARTS),
    "study": lambda path: write_study(path, {"boston": "finished", "yacht": "finished", "naval": "pending"}),
}


@contextmanager
def opened(browser: Any, report: Path, width: int = 1280, **options: Any) -> Iterator[tuple[Any, list[str], list[str]]]:
    """A drawn report with the requests that it made and the complaints of the browser."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **options)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(report.as_uri())
    if options.get("java_script_enabled", True):
        page.wait_for_selector("html[data-drawn]", timeout=60_000, state="attached")
    yield page, requests, complaints
    context.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_report_is_drawn_and_quiet(browser: Any, tmp_path: Path, variant: str, width: int) -> None:
    report = build_run_report(VARIANTS[variant](tmp_path / "run"))
    with opened(browser, report, width) as (page, requests, complaints):
        figures = page.locator(".plot")
        assert figures.count() > 0
        assert page.locator(".plot:has(svg.main-svg)").count() == figures.count()
        assert page.locator(".plot .waiting").count() == 0
        assert requests == [report.as_uri()]
        assert complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = page.evaluate(
            "Array.from(document.querySelectorAll('.plot svg.main-svg'), s => s.getBoundingClientRect().right)"
        )
        assert max(boxes) <= width


def test_hostile_text_is_shown_and_not_run(browser: Any, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", names=[HOSTILE, "b"], inputs=2, outputs=(HOSTILE,), moving=(0,))
    write_hostile(path)
    with opened(browser, build_run_report(path)) as (page, requests, complaints):
        assert complaints == []
        assert len(requests) == 1
        assert page.locator("h1").inner_text().startswith(HOSTILE)
        assert page.locator("img").count() == 0
        # Plotly makes links and bold text out of labels that are not escaped.
        assert page.locator(".plot svg a").count() == 0
        shown = " ".join(page.locator(".plot svg text").all_text_contents())
        assert "</script><scri" in shown
        assert "&lt;" not in shown


def test_hover_text_is_text(browser: Any, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", names=["<b>%{x}</b> & co", "b"])
    with opened(browser, build_run_report(path)) as (page, _, complaints):
        page.evaluate("Plotly.Fx.hover(document.querySelector('.plot'), [{curveNumber: 0, pointNumber: 3}])")
        hover = page.locator(".plot").first.locator(".hoverlayer").text_content()
        assert "<b>%{x}</b> & co" in hover
        assert complaints == []


def test_a_page_without_javascript_has_the_numbers(browser: Any, run_dir: Path) -> None:
    with opened(browser, build_run_report(run_dir), java_script_enabled=False) as (page, requests, _):
        assert "Figures need JavaScript" in page.locator("noscript").inner_text()
        assert "−1.512" in page.locator("main").inner_text()
        assert len(requests) == 1


def test_an_old_browser_says_so(browser: Any, run_dir: Path) -> None:
    report = build_run_report(run_dir)
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert "Figures need a browser from 2023" in page.locator(".plot").first.inner_text()
    context.close()


def test_print(browser: Any, tmp_path: Path) -> None:
    report = build_run_report(write_run(tmp_path / "run", num_layers=20))
    with opened(browser, report) as (page, _, complaints):
        pdf = page.pdf(format="A4")
        assert pdf.startswith(b"%PDF")
        assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 14
        # Folded parts were open for the print, and are folded again.
        assert page.locator("details[open]").count() == 0
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        widths = page.evaluate(
            "Array.from(document.querySelectorAll('.plot svg.main-svg'), s => s.getBoundingClientRect().width)"
        )
        # 180 mm of an A4 page at 96 dots per inch.
        assert max(widths) <= 680
        assert complaints == []


def test_headings_and_names_for_screen_readers(browser: Any, run_dir: Path) -> None:
    with opened(browser, build_run_report(run_dir)) as (page, _, _):
        levels = [
            int(name[1]) for name in page.evaluate("Array.from(document.querySelectorAll('h1,h2,h3'), h => h.tagName)")
        ]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert page.locator(".plot:not([aria-label])").count() == 0
        assert page.locator("table th:not([scope])").count() == 0
        ids = page.evaluate("Array.from(document.querySelectorAll('h2[id]'), h => h.id)")
        assert len(set(ids)) == len(ids) == 7


def test_a_study_leads_to_the_reports_of_its_sets(browser: Any, tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", {"boston": "finished", "yacht": "running"})
    build_run_report(path / "boston")
    with opened(browser, build_run_report(path)) as (page, _, complaints):
        assert (
            "better"
            in page.locator("section", has=page.locator("#log_likelihood")).locator("tbody tr").nth(0).inner_text()
        )
        page.get_by_role("link", name="boston", exact=True).first.click()
        page.wait_for_selector("html[data-drawn]", timeout=60_000, state="attached")
        assert page.url == (path / "boston" / "report.html").as_uri()
        assert page.locator("h1").inner_text().startswith("synthetic")
        assert complaints == []


def test_hostile_replicas_are_shown_and_not_run(browser: Any, tmp_path: Path) -> None:
    path = write_replicas(tmp_path / "run", [{HOSTILE: HOSTILE}, {HOSTILE: "b"}], layers=[HOSTILE, "b"], moving=(0,))
    write_hostile(path)
    with opened(browser, build_run_report(path)) as (page, requests, complaints):
        assert complaints == []
        assert len(requests) == 1
        assert page.locator("img").count() == 0
        assert page.locator(".plot svg a").count() == 0
