from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.report.test_browser import opened
from tests.report.test_run import HOSTILE

from concrete_dropout.report import build_run_report
from concrete_dropout.report.evaluation import evaluation_page
from concrete_dropout.report.evaluation_rows import error_words, rows_of
from concrete_dropout.runfolder import EVALUATION, RunFolder

METRICS = {"accuracy": 0.9, "nll": 0.3, "brier": 0.1, "ece": 0.05, "mutual_information": 0.02}
CURVES = {"confidence": [0.6, 0.9], "frequency": [0.5, 0.95], "share": [0.4, 0.6]}


def scored(samples: int, change: float = 0.0, **more: Any) -> dict[str, Any]:
    metrics = {name: value + change for name, value in METRICS.items()}
    return {"samples": samples, "metrics": metrics, "curves": CURVES, "points": 100, **more}


def one_pass(subject: str, rows: list[dict[str, Any]], mask: str | None = "concrete", **more: Any) -> dict[str, Any]:
    fields = {"subject": subject, "part": "test", "mask": mask, "repeat": 0, "shift": "", "severity": 0, **more}
    return {**fields, "key": str(fields), "rows": rows, "seconds": 1.0}


def content(names: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    """Two runs with two repeats, two corruptions, other data and temperatures."""
    detection = {
        score: {"auroc": 0.7, "aupr": 0.6, "fpr95": 0.5} for score in ("epistemic", "predictive", "confidence")
    }
    fitted = {"factor": 1.5, "before": METRICS, "after": METRICS, "curves": {"before": CURVES, "after": CURVES}}
    passes = []
    for name in names:
        passes.append(one_pass(name, [scored(0, fitted=fitted)], mask=None))
        for repeat in (0, 1):
            more = {"fitted": fitted} if repeat == 0 else {}
            passes.append(one_pass(name, [scored(5, 0.1 * repeat), scored(50, 0.01 * repeat, **more)], repeat=repeat))
        for shift in ("blur", "rotation"):
            for severity in (1, 2):
                row = scored(50, 0.1 * severity, detection=detection)
                passes.append(one_pass(name, [row], shift=shift, severity=severity))
        passes.append(one_pass(name, [{"samples": 50, "detection": detection}], shift="noise"))
    return {
        "identity": {"data": {"data.root": HOSTILE}, "ood": {}},
        "kind": "classification",
        "state": "finished",
        "plan": {"counts": [0, 5, 50], "parts": ["test"], "repeats": 2},
        "subjects": [{"name": name, "group": name, "checkpoint": "x.ckpt", "dropout": "concrete"} for name in names],
        "started": "2026-01-01T10:00:00+00:00",
        "ended": "2026-01-01T10:01:00+00:00",
        "command": "python evaluate.py",
        "passes": passes,
    }


def test_repeats_give_a_mean_and_its_deviation() -> None:
    rows = rows_of(content())
    row = next(row for row in rows if (row.group, row.mask, row.samples, row.shift) == ("a", "concrete", 5, ""))
    assert row.metrics["nll"].mean == pytest.approx(0.35)
    assert row.metrics["nll"].error == pytest.approx(0.1 / math.sqrt(2))
    assert "standard deviation over 2 seeds" in error_words(content())


def test_replicas_give_a_mean_and_its_standard_error() -> None:
    results = content(("a", "b", "c"))
    for index, subject in enumerate(results["subjects"]):
        subject["group"] = "run"
        for record in results["passes"]:
            if record["subject"] == subject["name"] and record["mask"] is None:
                record["rows"] = [scored(0, float(index))]
    (row,) = [row for row in rows_of(results) if row.mask == "none"]
    assert row.metrics["nll"].mean == pytest.approx(1.3)
    assert row.metrics["nll"].error == pytest.approx(1 / math.sqrt(3))
    assert error_words(results) == "± is the standard error over 3 replicas."


def test_every_section_is_there(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_json(EVALUATION, content())
    page = build_run_report(tmp_path)
    text = page.read_text()
    assert page.name == "evaluation.html"
    for key in ("results", "samples", "temperature", "severity", "detection", "provenance"):
        assert f'id="{key}"' in text
    assert "could not be built" not in text
    assert HOSTILE not in text


def test_what_was_not_asked_for_has_no_section() -> None:
    results = content(("a",))
    results["passes"] = results["passes"][:1]
    del results["passes"][0]["rows"][0]["fitted"]
    text = evaluation_page({**results, "state": "stopped"})
    assert [f'id="{key}"' in text for key in ("results", "samples", "temperature", "severity", "detection")] == [
        True,
        *[False] * 4,
    ]
    assert "This evaluation is stopped" in text


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_drawn_and_quiet(browser: Any, tmp_path: Path, width: int) -> None:
    RunFolder(tmp_path).write_json(EVALUATION, content(("a", HOSTILE)))
    page = build_run_report(tmp_path)
    with opened(browser, page, width) as (view, requests, complaints):
        assert view.locator(".plot:has(svg.main-svg)").count() == view.locator(".plot").count() > 10
        assert requests == [page.as_uri()]
        assert complaints == []
        assert view.evaluate("document.documentElement.scrollWidth") <= width
