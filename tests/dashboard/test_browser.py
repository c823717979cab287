"""The page in a real browser: sorting, filtering, comparing, following, and hostile text that stays text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.dashboard import write_one
from tests.report.runs import truncate, write_run
from tests.report.vision_runs import write_classification, write_segmentation

from concrete_dropout import runfolder
from concrete_dropout.dashboard.build import build_site
from concrete_dropout.dashboard.serve import serving
from concrete_dropout.report import build_run_report
from concrete_dropout.runfolder import RunFolder

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'`${alert(3)}%{x}&lt;"
TABS = ("runs", "p", "calibration", "pictures", "compare", "studies")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of all kinds, one damaged, two in a sweep."""
    root = tmp_path_factory.mktemp("outputs")
    for number, experiment in enumerate(("synthetic", "uci", "digits", "mnist") * 8):
        write_one(root / experiment / f"run_{number:02d}", experiment, number, random.Random(number))
    build_run_report(write_run(root / "own" / "regression"))
    write_classification(root / "own" / "classes")
    write_segmentation(root / "own" / "scenes")
    truncate(write_run(root / "own" / "damaged"))
    sweep = root / "digits" / "sweep"
    for number in (0, 1):
        write_one(sweep / str(number), "digits", 4 * number, random.Random(number))
    runs = [{"folder": str(number), "label": f"init_p=0.{number}"} for number in (0, 1)]
    RunFolder(sweep).write_json(runfolder.STUDY, {"state": "finished", "experiment": "digits", "runs": runs})
    return build_site(root).index


@contextmanager
def opened(browser: Any, address: str, width: int = 1280, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """The page, with the complaints of the browser and any request that leaves the site."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    place = address.partition("index.html")[0]
    complaints: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith((place, "data:", "blob:")) else complaints.append(request.url),
    )
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    yield page, complaints
    context.close()


def column(page: Any, title: str) -> list[str]:
    """The texts of a column of the table."""
    titles = page.locator("#table thead th").all_inner_texts()
    place = [text.strip(" ↑↓") for text in titles].index(title)
    return [row.locator("td,th").nth(place).inner_text() for row in page.locator("#table tbody tr").all()]


def drawn(page: Any, tab: str) -> int:
    """Scroll through a view until all its figures are drawn; their number."""
    boxes = page.locator(f"#panel-{tab} .plot")
    for box in boxes.all():
        box.scroll_into_view_if_needed()
        page.wait_for_selector(f"#panel-{tab} .plot[data-drawn]", timeout=60_000)
    for _ in range(300):
        if page.locator(f"#panel-{tab} .plot:not([data-drawn])").count() == 0:
            break
        page.wait_for_timeout(100)
    assert page.locator(f"#panel-{tab} .plot:not([data-drawn])").count() == 0
    return int(boxes.count())


def test_runs_are_sorted(browser: Any, index: Path) -> None:
    with opened(browser, f"{index.as_uri()}#size=200") as (page, complaints):
        assert page.locator("#count").inner_text() == "38 runs"
        page.click("[data-focus='sort-nll']")
        values = [float(text) for text in column(page, "NLL") if text != "–"]
        assert values == sorted(values)
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("NLL")
        page.keyboard.press("Enter")  # the header keeps the keyboard
        assert [float(text) for text in column(page, "NLL") if text != "–"] == values[::-1]
        assert column(page, "NLL")[-1] == "–"  # runs without a value come last either way
        assert complaints == []


def test_runs_are_filtered(browser: Any, index: Path) -> None:
    with opened(browser, index.as_uri()) as (page, complaints):

        def search(text: str, expected: int) -> None:
            page.fill("#q", text)
            page.wait_for_timeout(250)  # the page waits for the end of a word
            found = page.locator("#count").inner_text()
            assert found.startswith(f"{expected} of "), (text, found)

        search("digits", 10)
        search("digits dropout=concrete", 2)  # the two of the sweep
        search("init_p>=0.3 experiment=uci", 3)
        search("state!=finished path=own/damaged", 1)
        search("nll<0", 0)
        assert "No run passes these filters" in page.locator("#table").inner_text()
        search('"init_p=0.1"', 8)  # as text: settings of seven runs, and a label
        page.click("#reset")
        assert page.locator("#count").inner_text() == "38 runs"
        page.click("[data-focus='state-damaged']")
        assert column(page, "Run") == ["own/damaged"]
        assert "run.json cannot be read" in column(page, "State")[0]
        page.click("[data-focus='state-damaged']")
        page.select_option("#experiment", "mnist")
        assert set(column(page, "Experiment")) == {"mnist"}
        # What is looked at is in the address: a reload keeps it.
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        assert set(column(page, "Experiment")) == {"mnist"}
        assert complaints == []


def test_pages_and_columns(browser: Any, index: Path) -> None:
    with opened(browser, f"{index.as_uri()}#size=25") as (page, complaints):
        first = column(page, "Run")
        page.click("[aria-label='Next page']")
        assert not set(first) & set(column(page, "Run"))
        assert len(first) == 25
        assert page.locator("#table tbody tr").count() == 13
        page.click("#columns summary")
        page.uncheck("[data-focus='column-experiment']")
        assert "Experiment" not in page.locator("#table thead").inner_text()
        page.select_option("#stage", "val")
        assert "validation data" in page.locator("caption").inner_text()
        assert complaints == []


def test_any_two_runs_are_compared(browser: Any, index: Path) -> None:
    with opened(browser, f"{index.as_uri()}#tab=compare") as (page, complaints):
        for key, path in (("a", "digits/run_02"), ("b", "digits/run_14")):
            page.fill(f"[data-focus='pick-{key}']", path)
            page.keyboard.press("Enter")
        page.wait_for_selector("#panel-compare h2 >> text=Scores")
        differences = page.locator("#panel-compare table", has_text="Key").first
        keys = differences.locator("tbody th").all_inner_texts()
        assert set(keys) == {"seed", "dropout.init_p"} | ({"dropout.kind"} & set(keys))
        row = differences.locator("tr", has_text="dropout.init_p").inner_text().split()
        assert row == ["dropout.init_p", "0.2", "0.5"]
        scores = page.locator("#panel-compare table", has_text="Accuracy (test)")
        summaries = [
            RunFolder(index.parents[1] / path).read_json(runfolder.SUMMARY)["metrics"]
            for path in ("digits/run_02", "digits/run_14")
        ]
        better = scores.locator("tr", has_text="NLL (test)").locator(".better").inner_text()
        assert float(better.split()[0]) == pytest.approx(min(summary["test/nll"] for summary in summaries), rel=1e-3)
        assert drawn(page, "compare") >= 5
        page.fill("[data-focus='pick-b']", "nothing")
        page.keyboard.press("Enter")
        assert "Their configs are the same" not in page.locator("#panel-compare").inner_text()
        assert complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_all_views_are_drawn_quiet_and_fit(browser: Any, index: Path, width: int, scheme: str) -> None:
    with opened(browser, index.as_uri(), width, color_scheme=scheme) as (page, complaints):
        for tab in TABS:
            page.click(f"#tab-{tab}")
            if tab == "compare":
                page.wait_for_selector("#panel-compare h2 >> text=Scores")
            assert drawn(page, tab) >= {"p": 3, "calibration": 1, "compare": 2}.get(tab, 0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        assert complaints == []
        # The chosen runs are the ones that figures show.
        page.goto(f"{index.as_uri()}#tab=pictures&q=own")
        page.reload()
        page.wait_for_selector("#panel-pictures .panels img")
        assert page.locator("#panel-pictures .tiles img").count() > 0
        assert drawn(page, "pictures") == 1  # the band of the regression


def test_tabs_and_boxes_obey_the_keyboard(browser: Any, index: Path) -> None:
    with opened(browser, index.as_uri()) as (page, complaints):
        page.keyboard.press("/")
        page.keyboard.type("uci")
        page.wait_for_timeout(250)
        assert page.locator("#count").inner_text().startswith("8 of")
        page.focus("#tab-runs")
        page.keyboard.press("ArrowRight")
        assert page.locator("#tab-p").get_attribute("aria-selected") == "true"
        page.keyboard.press("Home")
        page.focus("#table tbody tr:nth-child(1) input")
        page.keyboard.press("Space")
        page.focus("#table tbody tr:nth-child(2) input")
        page.keyboard.press("Space")
        assert page.locator("#tray .chosen").count() == 2
        assert page.evaluate("document.activeElement.type") == "checkbox"
        assert page.locator("table th:not([scope])").count() == 0
        unnamed = "[...document.querySelectorAll('input,select')].filter(e => !e.labels?.length && !e.ariaLabel).length"
        assert page.evaluate(unnamed) == 0
        page.click("#tray >> text=Compare the first two")
        page.wait_for_selector("#panel-compare h2 >> text=Scores")
        assert complaints == []


def test_an_open_page_follows_and_keeps_what_was_chosen(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "first")
    write_run(tmp_path / "other", experiment="other")
    index = build_site(tmp_path, refresh=0.5).index
    with opened(browser, f"{index.as_uri()}#q=synthetic") as (page, complaints):
        page.check("#table tbody input")
        assert page.locator("#count").inner_text() == "1 of 2 runs"
        write_run(tmp_path / "second")
        build_site(tmp_path, refresh=0.5)
        page.wait_for_selector("#count >> text=2 of 3 runs", timeout=20_000)
        assert page.input_value("#q") == "synthetic"
        assert page.locator("#table tbody input:checked").count() == 1
        assert page.evaluate("document.activeElement.dataset.focus").startswith("choose-")
        assert complaints == []


def test_hostile_text_is_shown_and_not_run(browser: Any, tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "∕")
    for number in (0, 1):
        place = tmp_path / f"{name}{number}"
        folder = RunFolder(write_classification(place, names=(HOSTILE, *"123456789")))
        folder.update_json(
            runfolder.RUN, experiment=HOSTILE, dropout=HOSTILE, state="failed", error=HOSTILE, seed=HOSTILE
        )
        folder.update_json(runfolder.RUN, command=HOSTILE, started=HOSTILE, layers=[{"name": HOSTILE, "kind": HOSTILE}])
        folder.write_json(runfolder.SUMMARY, {"metrics": {f"test/{HOSTILE}": 1.0, "test/nll": 1.0 + number}})
        folder.write_json(runfolder.CONFIG_DIFF, [{"key": HOSTILE, "value": HOSTILE}])
        folder.append_rows(runfolder.DROPOUT, runfolder.DROPOUT_HEADER, [(step, HOSTILE, 0.1) for step in (0, 1, 2)])
        folder.write_text(runfolder.CONFIG, json.dumps({HOSTILE: f"{HOSTILE}{number}"}))
    sweep = {
        "state": HOSTILE,
        "experiment": HOSTILE,
        "started": HOSTILE,
        "runs": [{"folder": f"{name}0", "label": HOSTILE}],
    }
    (tmp_path / runfolder.STUDY).write_text(json.dumps(sweep))
    index = build_site(tmp_path).index
    with opened(browser, index.as_uri()) as (page, complaints):
        for tab in TABS:
            page.click(f"#tab-{tab}")
            drawn(page, tab)
            page.wait_for_timeout(100)
            assert page.locator("img[src=x]").count() == 0
            assert page.locator(".plot svg a").count() == 0
        page.click("#tab-runs")
        assert column(page, "Experiment") == [HOSTILE, HOSTILE]
        assert HOSTILE in column(page, "State")[0]
        page.click("#tab-p")
        drawn(page, "p")
        page.evaluate(
            "Plotly.Fx.hover(document.querySelectorAll('#panel-p .plot')[2], [{curveNumber: 0, pointNumber: 1}])"
        )
        assert "onerror=alert(1)" in " ".join(page.locator("#panel-p svg text").all_text_contents())
        assert complaints == []


def test_it_works_from_a_server_too(browser: Any, index: Path) -> None:
    root = index.parents[1]
    with serving(root, index.parent, port=0) as address, opened(browser, address) as (page, complaints):
        page.fill("#q", "own/regression")
        page.wait_for_selector("#count >> text=1 of")
        page.click("#tab-calibration")
        assert drawn(page, "calibration") == 1
        assert complaints == []
        page.click("#tab-runs")
        page.click("#table tbody a")
        page.wait_for_url("**/own/regression/report.html", wait_until="commit")
        assert page.locator("h1").inner_text().startswith("synthetic")
