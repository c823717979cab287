"""What a grid search costs: its jobs are rows of their own, whose time is compared with one Concrete run's."""

from __future__ import annotations

import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add, main
from tools.measured.figures import COLOURS
from tools.measured.grid_section import searches
from tools.measured.page import PAGE, RESULTS, made

from concrete_dropout.runfolder import RUN, STUDY, RunFolder

TITLE = "The cost of a grid search"
GRID = {"0.05": -1.0, "0.1": -0.8, "0.5": -2.0, "": -0.7}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = place_of(tmp_path_factory.mktemp("project"))
    add(place / RESULTS, [runs.grid_search(tmp_path_factory.mktemp("runs") / "grid", GRID, seeds=(0, 1))])
    return place / RESULTS


def test_jobs_are_rows_with_nll_and_time(results: Path) -> None:
    rows = rows_of(results, "grid_cost")
    assert len(rows) == 2 * 4 * 5
    first = rows[0]
    assert (first["set"], first["dropout"], first["p"], first["seed"], first["split"]) == (
        "yacht",
        "fixed",
        "0.05",
        "0",
        "0",
    )
    assert 0.9 < float(first["nll"]) < 1.1
    assert (first["seconds"], first["replicas"], first["settings"]) == ("600", "5", "")
    assert first["study"] == "python train.py -m experiment=uci data.name=yacht sweep=grid_vs_concrete test=false"
    learned = [row for row in rows if row["dropout"] == "concrete"]
    assert {(row["p"], row["seconds"], row["converged"]) for row in learned} == {("", "300", "true")}
    assert learned[0]["learned_p"].startswith("network.layers.0=0.0004 ")


def test_they_are_no_rows_of_the_experiment(results: Path, tmp_path: Path) -> None:
    assert not (results / "uci.csv").exists()
    # Also a job of a sweep that was killed, and has no record of its jobs, is known by what the job says.
    sweep = runs.grid_search(tmp_path / "sweep", GRID)
    (sweep / STUDY).unlink()
    for folder in (sweep, sweep / "0"):
        add(tmp_path / folder.name / "results", [folder])
        assert [path.name for path in (tmp_path / folder.name / "results").iterdir()] == ["grid_cost.csv"]


def test_a_p_that_is_run_later_belongs_to_the_same_search(tmp_path: Path) -> None:
    first, later = runs.grid_search(tmp_path / "grid", GRID), runs.grid_search(tmp_path / "later", {"0.01": -0.5})
    record = RunFolder(later).read_record(STUDY)
    record["runs"][0]["values"] = {"job": 0}  # as a sweep of one job has it
    RunFolder(later).write_json(STUDY, record)
    add(tmp_path / "results", [first, later])
    rows = rows_of(tmp_path / "results", "grid_cost")
    assert {row["settings"] for row in rows} == {""}
    assert {row["p"] for row in rows} == {*GRID, "0.01"}


def test_jobs_that_cannot_count_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = runs.grid_search(tmp_path / "sweep", {"0.1": -1.0})
    RunFolder(sweep / "0").update_json(RUN, state="interrupted")
    RunFolder(sweep).update_json(
        STUDY, runs=[{**run, "state": "running"} for run in RunFolder(sweep).read_json(STUDY)["runs"]]
    )
    add(tmp_path / "results", [sweep])
    assert "left out, it is interrupted" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_best_p_the_difference_and_the_time(results: Path) -> None:
    rows = rows_of(results, "grid_cost")
    (search,) = searches(rows)
    assert (search.best, search.grid) == ("0.1", ["0.05", "0.1", "0.5"])
    nll = {(row["p"], row["seed"], row["split"]): float(row["nll"]) for row in rows}
    # Seeds of a split share its data: they are one repeat.
    pairs = [
        statistics.mean(nll["", seed, split] - nll["0.1", seed, split] for seed in ("0", "1")) for split in "01234"
    ]
    assert search.difference is not None
    assert search.difference.mean == pytest.approx(statistics.mean(pairs))
    assert search.difference.se == pytest.approx(statistics.stdev(pairs) / len(pairs) ** 0.5)
    # Three jobs of ten minutes for each seed, however many splits they had; one of five minutes.
    seconds = [found.mean for ps in (search.grid, [""]) if (found := search.seconds(ps))]
    assert seconds == [1800, 300]
    assert search.share == pytest.approx(1 / 6)


def test_a_seed_without_all_of_the_grid_does_not_count_for_its_time(results: Path) -> None:
    rows = [row for row in rows_of(results, "grid_cost") if (row["seed"], row["p"]) != ("1", "0.5")]
    (search,) = searches(rows)
    whole = search.seconds(search.grid)
    assert whole is not None
    assert (whole.mean, whole.count) == (1800, 1)


def test_the_page_has_tables_and_a_figure(results: Path, tmp_path: Path) -> None:
    root = results.parents[1]
    assert main(["build"], root) == 0
    page = (root / PAGE).read_text()
    text = section(page, TITLE)
    row = cells(text, "yacht")
    assert row[1] == "0.1"
    assert row[5:] == ["30 min (3)", "5 min", "17\N{NO-BREAK SPACE}%"]
    assert cells(text, "learned")[3:5] == ["5, 2 seeds each", "5 min"]
    picture = ElementTree.parse(results / "grid_cost_yacht.svg").getroot()
    lines = [line.attrib["points"].split() for line in picture.iter() if line.tag.endswith("polyline")]
    assert [len(points) for points in lines] == [3, 2]
    assert lines[1][0].split(",")[1] == lines[1][1].split(",")[1]  # level
    paints = [line.attrib["stroke"] for line in picture.iter() if line.tag.endswith("polyline")]
    assert paints == [COLOURS[1], COLOURS[2]]  # of a fixed p and of Concrete, as in all figures
    bars = [path for path in picture.iter() if path.get("stroke-width") == "1.3"]
    assert len(bars) == 3 + 2
    short = cells(section(page, "In short"), f"[{TITLE}]")
    assert short[2:] == ["1 of 1; 17\N{NO-BREAK SPACE}%", "5", "10 of 10"]
    empty = section(made(place_of(tmp_path / "empty"))[tmp_path / "empty" / PAGE], TITLE)
    assert "**Not run yet.**" in empty
    assert "sweep=grid_vs_concrete" in empty


def test_one_seed_is_no_verdict_and_has_no_bars(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    add(root / RESULTS, [runs.grid_search(tmp_path / "grid", GRID)])
    path = root / RESULTS / "grid_cost.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "".join(line for line in lines if ",0,0," in line))
    files = made(root)
    short = cells(section(files[root / PAGE], "In short"), f"[{TITLE}]")
    assert short[2:4] == ["too few seeds to tell: 1; 17\N{NO-BREAK SPACE}%", "1"]
    assert 'stroke-width="1.3"' not in files[root / RESULTS / "grid_cost_yacht.svg"]
