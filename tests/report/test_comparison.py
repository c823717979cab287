"""The report that compares runs: against a number, between kinds of dropout, half-way, damaged, hostile."""

from __future__ import annotations

import csv
import json
import math
import re
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from tests.report.comparison_runs import (
    KINDS,
    LENGTH_SCALES,
    MNIST_SIZES,
    MNIST_WIDTHS,
    names_of_runs,
    write_comparison,
)
from tests.report.runs import truncate, write_run
from tests.report.test_browser import opened
from tests.report.test_run import HOSTILE, count_figures, read
from tests.report.test_study import rows_of

from concrete_dropout import runfolder
from concrete_dropout.report import build_run_report
from concrete_dropout.report.comparison import METRICS, compare, moving
from concrete_dropout.report.comparison_curves import averaged, pooled
from concrete_dropout.report.factors import factors_of
from concrete_dropout.report.record import NO_MC
from concrete_dropout.report.study_record import read_study
from concrete_dropout.runfolder import STUDY, RunFolder

BY_KEY = {metric.key: metric for metric in METRICS}


def table_of(path: Path) -> list[dict[str, str]]:
    with (path / "table.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def section(text: str, key: str) -> str:
    return text.split(f'<h2 id="{key}">')[1].split("</section>")[0]


# What is compared ----------------------------------------------------------------------------------------------------


def test_groups_are_repeats_with_other_seeds(tmp_path: Path) -> None:
    found = compare(
        read_study(write_comparison(tmp_path / "study", {"seed": [0, 1], "dropout.kind": ["none", "fixed"]}))
    )
    assert [group.label for group in found.groups] == ["no dropout", "fixed"]
    assert [[member.values["seed"] for member in group.members] for group in found.groups] == [[0, 1], [0, 1]]
    assert found.axis is None
    assert found.stage == "test"


def test_scores_are_means_and_standard_errors_over_runs(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", MNIST_SIZES)
    found = compare(read_study(path))
    folders = [name for name in names_of_runs(path) if "train_size=5000," in name]
    values = [RunFolder(path / name).read_json(runfolder.SUMMARY)["metrics"] for name in folders]
    for key, suffix, factor in (("accuracy", "", 100), ("log_likelihood", NO_MC, 1), ("calibration_rmse", "", 100)):
        own = [factor * entry[f"test/{key}{suffix}"] for entry in values]
        score = found.groups[1].score("test", BY_KEY[key], suffix)
        assert score is not None
        assert (score.count, score.mean) == (3, pytest.approx(mean(own)))
        assert score.se == pytest.approx(stdev(own) / math.sqrt(3))
    elbo = found.groups[1].score("test", BY_KEY["elbo"])
    assert elbo is not None
    assert elbo.mean == pytest.approx(values[0]["train/elbo"])


@pytest.mark.parametrize(
    ("grid", "numeric", "wide"),
    [
        ({"data.train_size": [50000, 1000]}, True, True),
        ({"model.hidden": [[128] * 3, [256] * 3]}, True, False),
        ({"model.hidden": [[128, 64], [256, 64]]}, False, False),
        ({"dropout.p": [0.1, 0.2]}, True, False),
        ({"optim.lr": [0, 0.1]}, True, False),
        ({"data.augment": [True, False]}, False, False),
        ({"dropout.kind": ["none", "fixed"]}, False, False),
        ({"model.hidden": [[64], [64, 64]]}, False, False),
    ],
)
def test_numbers_stand_on_an_axis(grid: dict[str, list[object]], numeric: bool, wide: bool) -> None:
    (key, values), *_ = grid.items()
    (factor,) = factors_of([{key: value, "seed": seed} for value in values for seed in (0, 1)])
    assert (factor.is_numeric, factor.is_wide and numeric) == (numeric, wide)
    if numeric:
        assert list(factor.values) == sorted(values, key=str if isinstance(values[0], list) else None)  # type: ignore[type-var, arg-type]


def test_lines_are_the_other_factors(tmp_path: Path) -> None:
    grid = {"dropout.kind": ["fixed", "concrete"], "data.train_size": [50000, 1000], "seed": [0]}
    found = compare(read_study(write_comparison(tmp_path / "study", grid)))
    assert found.axis is not None
    assert found.axis.key == "data.train_size"
    series = found.series()
    assert {name: [place for place, _ in points] for name, points in series.items()} == {
        "fixed": [1000, 50000],
        "Concrete": [1000, 50000],
    }
    assert found.groups[0].label == "fixed, N = 1,000"


def test_unfinished_runs_do_not_count(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", KINDS, {1: "running", 3: "failed", 5: "pending"})
    found = compare(read_study(path))
    assert [(len(group.done), len(group.members)) for group in found.groups] == [(1, 2)] * 3


def test_reliability_curves_of_runs_are_pooled_by_bin() -> None:
    one = {"confidence": [0.31, 0.99], "frequency": [0.2, 1.0], "share": [0.5, 0.5]}
    two = {"confidence": [0.34, 1.0], "frequency": [0.4, 0.9], "share": [0.1, 0.9]}
    (low, high) = pooled([one, two])
    assert low == pytest.approx(((0.31 * 0.5 + 0.34 * 0.1) / 0.6, (0.2 * 0.5 + 0.4 * 0.1) / 0.6, 0.3))
    assert high == pytest.approx(((0.99 * 0.5 + 0.9) / 1.4, (0.5 + 0.81) / 1.4, 0.7))
    assert sum(share for _, _, share in pooled([one, two])) == pytest.approx(1)
    # 60 predictions of two runs: 18 of them are too few for a mark of their own.
    (single,) = pooled([one | {"num_points": 30}, two | {"num_points": 30}])
    assert single == pytest.approx(((0.155 + 0.034 + 0.495 + 0.9) / 2, (0.1 + 0.04 + 0.5 + 0.81) / 2, 1))
    assert len(pooled([one | {"num_points": 50}, two | {"num_points": 50}])) == 2
    assert pooled([{"confidence": ["x", 0.5], "frequency": [1], "share": None}]) == []
    assert averaged([{"expected": [0.5], "observed": [0.4]}, {"expected": [0.5, 0.9], "observed": [0.6, 1]}]) == [
        (0.5, pytest.approx(0.5), 2.0)
    ]


# The page ------------------------------------------------------------------------------------------------------------


def test_a_study_over_the_amount_of_data(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", MNIST_SIZES, experiment="mnist_data_size", moving={0: (2,)})
    text = read(path)
    assert "<h1>mnist_data_size</h1>" in text
    assert "15 runs, all finished. They differ in training points N (5 values), with 3 runs for each." in text
    top = text[: text.index("<h2")]
    assert "In 1 run some dropout probability had not converged." in top
    assert "data.train_size=1000, seed=0" in top
    body = section(text, "probabilities")
    assert "falls" in body
    assert body.count('class="flag"') == 2  # the words that explain it, and the layer
    assert "p falls as the training set grows" in text
    for key in ("against", "calibration", "selective", "runs", "reproduce"):
        assert f'<h2 id="{key}">' in text
    assert '<h2 id="classes">' not in text
    assert "could not be built" not in text
    assert count_figures(path) >= 12
    figures = figures_of(path)
    (drawn,) = [figure for figure in figures if figure["layout"]["title"]["text"] == "p at the end of training"]
    assert drawn["layout"]["xaxis"]["type"] == "log"
    assert drawn["data"][-1]["name"] == "had not converged"
    assert len(drawn["data"][-1]["x"]) == 1


def figures_of(path: Path) -> list[dict[str, object]]:
    page = (path / runfolder.REPORT).read_text(encoding="utf-8")
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def test_a_study_over_widths(tmp_path: Path) -> None:
    text = read(write_comparison(tmp_path / "study", MNIST_WIDTHS, experiment="mnist_width"))
    assert "3 × 1,024" in text
    assert "rises" in section(text, "probabilities")
    assert "p of the first layer stays close to 0" in text


def test_a_study_over_length_scales_has_the_elbo(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", LENGTH_SCALES, {11: "failed"})
    text = read(path)
    assert "ELBO" in section(text, "results")
    rows = table_of(path)
    best = max(rows, key=lambda row: float(row["elbo"] or -9))
    assert best["dropout.length_scale"] == "0.01"
    assert "1 run failed." in text
    assert "RuntimeError: loss is NaN" in section(text, "runs")
    assert [row["runs"] for row in rows if row["dropout.length_scale"] == "2.0"] == ["1", "1"]


def test_a_study_of_kinds_of_dropout(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", KINDS)
    text = read(path)
    rows = [
        " ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall("<tr>(.*?)</tr>", section(text, "results"))
    ]
    assert [row.split(" 9")[0] for row in rows[1:]] == [
        "no dropout one pass",
        "fixed MC samples",
        "fixed one pass",
        "Concrete MC samples",
        "Concrete one pass",
    ]
    written = table_of(path)
    assert [(row["dropout.kind"], row["mc"]) for row in written] == [
        ("none", "0"),
        ("fixed", "1"),
        ("fixed", "0"),
        ("concrete", "1"),
        ("concrete", "0"),
    ]
    names = {
        figure["layout"]["title"]["text"]: [
            trace.get("name") for trace in figure["data"] if trace.get("showlegend", True)
        ]
        for figure in figures_of(path)
    }
    assert names["Reliability"] == [
        "perfect",
        "no dropout",
        "fixed, MC",
        "fixed, one pass",
        "Concrete, MC",
        "Concrete, one pass",
    ]
    assert names["Accuracy of what is kept"] == ["no dropout", "fixed", "Concrete"]
    text = (path / "table.md").read_text(encoding="utf-8")
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_a_segmentation_has_classes(tmp_path: Path) -> None:
    text = read(write_comparison(tmp_path / "study", KINDS, segmentation=True))
    assert "pedestrian" in section(text, "classes")
    assert "mIoU" in section(text, "results")


def test_many_layers_are_a_profile(tmp_path: Path) -> None:
    layers = [f"network.blocks.{i}.dropout" for i in range(30)]
    path = write_comparison(tmp_path / "study", KINDS, layers=layers, moving={5: (3,)})
    assert "Table of all 30 layers" in read(path)
    (drawn,) = [f for f in figures_of(path) if f["layout"]["title"]["text"] == "Dropout probability by depth"]
    assert drawn["data"][-1]["name"] == "had not converged"
    assert drawn["data"][-1]["x"] == [4]


def test_regression_runs_have_coverage(tmp_path: Path) -> None:
    path = tmp_path / "study"
    runs = []
    for seed in (0, 1):
        write_run(path / str(seed), seed=seed)
        runs.append({"label": str(seed), "folder": str(seed), "values": {"seed": seed}, "state": "finished"})
    RunFolder(path).write_json(STUDY, {"kind": "comparison", "state": "finished", "runs": runs})
    text = read(path)
    assert "The same experiment, repeated." in text
    assert "all runs" in rows_of(text, "results")["all"]
    assert "Coverage of predictive intervals" in json.dumps(figures_of(path))


def test_single_runs_come_with_a_warning(tmp_path: Path) -> None:
    text = read(write_comparison(tmp_path / "study", {"dropout.kind": ["none", "concrete"]}))
    assert "One finished run for each setting." in text
    assert "++study.grid={seed:[0,1,2]}" in text


def test_every_run_leads_to_its_report(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", KINDS, {0: "pending"})
    links = set(re.findall(r'href="(\./[^"]*)"', read(path)))
    assert links == {
        f"./{name.replace('=', '%3D').replace(',', '%2C')}/report.html" for name in names_of_runs(path)[1:]
    }


# Half-way, damaged, hostile ------------------------------------------------------------------------------------------


def test_nothing_has_begun(tmp_path: Path) -> None:
    text = read(write_comparison(tmp_path / "study", KINDS, dict.fromkeys(range(6), "pending")))
    assert "No run has come to its end yet." in text
    assert "0 of 6 runs finished" in text
    assert "could not be built" not in text


def test_half_way(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", MNIST_SIZES, dict.fromkeys(range(4, 15), "pending") | {3: "running"})
    text = read(path)
    assert "3 of 15 runs finished" in text
    assert "0 of 3" in section(text, "results")
    assert "could not be built" not in text


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_damage_costs_what_is_damaged(tmp_path: Path, share: float) -> None:
    path = write_comparison(tmp_path / "study", KINDS, segmentation=True)
    truncate(path / names_of_runs(path)[2], share)
    text = read(path)
    assert "Some files of this study are damaged." in text
    assert "Concrete" in section(text, "results")
    truncate(path, share)
    text = read(path)
    assert "could not be built" not in text
    # Without study.json, folders say what varied.
    assert "Concrete" in section(text, "results")


def test_files_of_another_shape(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", {"dropout.kind": ["fixed", "concrete"]}, segmentation=True)
    files = ("selective.json", "classes.json", "calibration.json", "convergence.json", "summary.json")
    for content in ("[]", '"x"', '{"test": 5}', '{"test": {"left_out": 3, "names": "x", "iou": 1, "confidence": 2}}'):
        for name in names_of_runs(path):
            for file in files:
                RunFolder(path / name).write_text(file, content)
        assert "could not be built" not in read(path)


def test_values_of_any_shape(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "study", {"dropout.kind": ["fixed", "concrete"]})
    entry = RunFolder(path).read_json(STUDY)
    for values in ({}, 5, {"a": {"b": [None]}}, {"a": HOSTILE, HOSTILE: 1}, {"seed": [[]]}):
        entry["runs"][0]["values"] = values
        RunFolder(path).write_json(STUDY, entry)
        assert "could not be built" not in read(path)


def test_hostile_text(tmp_path: Path) -> None:
    grid = {HOSTILE: [HOSTILE, "b"], "seed": [0, 1]}
    path = tmp_path / "study"
    write_comparison(
        path, {"dropout.kind": ["fixed", "concrete"], "seed": [0, 1]}, segmentation=True, layers=[HOSTILE, "b"]
    )
    entry = RunFolder(path).read_json(STUDY)
    for index, run in enumerate(entry["runs"]):
        run |= {"label": HOSTILE, "error": HOSTILE, "values": {HOSTILE: grid[HOSTILE][index // 2], "seed": index % 2}}
        RunFolder(path / run["folder"]).update_json(runfolder.CLASSES, test={"names": [HOSTILE], "iou": [0.5]})
    RunFolder(path).write_json(STUDY, entry | {"experiment": HOSTILE})
    page = build_run_report(path).read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == page.count('type="application/json"') + 2
    assert "<img" not in page
    assert re.findall(r"<b>", page) == []
    assert "<b>" not in (path / "table.md").read_text()


def test_runs_with_moving_p_are_found(tmp_path: Path) -> None:
    study = read_study(write_comparison(tmp_path / "study", KINDS, moving={4: (0,)}))
    assert [member.label for member in moving(study.members)] == ["dropout.kind=concrete, seed=0"]


# In a browser --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "width"), [("camvid_table", 360), ("comparison", 1280)])
def test_the_page_is_drawn_and_quiet(browser: Any, tmp_path: Path, kind: str, width: int) -> None:
    if kind == "camvid_table":
        layers = [f"network.blocks.{i}.dropout" for i in range(30)]
        keywords: dict[str, Any] = {"segmentation": True, "layers": layers, "moving": {5: (3,)}}
        path = write_comparison(tmp_path / "study", KINDS, kind=kind, **keywords)
    else:
        grid = {"data.train_size": [1000, 50000], "seed": [0, 1]}
        path = write_comparison(tmp_path / "study", grid, {3: "failed"}, moving={0: (2,)})
    report = build_run_report(path)
    with opened(browser, report, width) as (page, requests, complaints):
        figures = page.locator(".plot")
        assert figures.count() >= 8
        assert page.locator(".plot:has(svg.main-svg)").count() == figures.count()
        assert requests == [report.as_uri()]
        assert complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        levels = page.evaluate("Array.from(document.querySelectorAll('h1,h2,h3'), h => Number(h.tagName[1]))")
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert page.locator(".plot:not([aria-label]), .plot[aria-label='']").count() == 0
