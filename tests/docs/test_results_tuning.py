"""What was tried is on record: validation scores of runs that were made to choose settings."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add, main, record_tried
from tools.measured.page import PAGE, RESULTS, made
from tools.measured.tuning_section import MOST
from tools.measured.tuning_section import PAGE as TRIED

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import REPLICAS, RUN, RunFolder

TITLE = "What was tried"


def test_a_row_has_means_over_splits_and_settings_as_typed(tmp_path: Path) -> None:
    run = runs.tuning(tmp_path / "run", more="trainer.max_steps=800 logger=none")
    record_tried(tmp_path / "results", [run])
    (row,) = rows_of(tmp_path / "results", "tuning")
    values = [float(entry["val/log_likelihood"]) for entry in RunFolder(run).read_table(REPLICAS)]
    assert float(row["log_likelihood"]) == pytest.approx(statistics.mean(values), rel=1e-6)
    assert float(row["log_likelihood_se"]) == pytest.approx(statistics.stdev(values) / 5**0.5, rel=1e-5)
    assert (row["experiment"], row["set"], row["settings"]) == ("uci", "yacht", "trainer.max_steps=800")
    assert (row["val_fraction"], row["splits"], row["seeds"], row["models"]) == ("0.1", "0-4", "0", "5")
    assert (row["dropout"], row["p"], row["converged"], row["steps"]) == ("concrete", "", "5 of 5", "600")
    assert row["learned_p"].startswith("network.layers.0=0.0004 ")
    assert "hydra.run.dir" not in row["command"]


def test_keys_of_the_grid_are_settings_but_for_splits(tmp_path: Path) -> None:
    record_tried(tmp_path / "results", [runs.tuning(tmp_path / "run", scales=(0.1, 1.0))])
    found = {row["settings"]: row["models"] for row in rows_of(tmp_path / "results", "tuning")}
    assert found == {"dropout.length_scale=0.1": "5", "dropout.length_scale=1.0": "5"}


def test_a_newer_run_of_a_setting_replaces_the_older_one(tmp_path: Path) -> None:
    old = runs.tuning(tmp_path / "old", likelihood=-2.0, commit="aaaaaaa")
    new = runs.tuning(tmp_path / "new", commit="bbbbbbb", started="2026-03-02T09:00:00+00:00")
    for order in ((old, new), (new, old)):
        for folder in order:
            record_tried(tmp_path / "results", [folder])
        assert [row["commit"] for row in rows_of(tmp_path / "results", "tuning")] == ["bbbbbbb"]


def test_a_model_counts_once_however_often_it_is_given(tmp_path: Path) -> None:
    old = runs.tuning(tmp_path / "all" / "old", likelihood=-2.0, commit="aaaaaaa")
    new = runs.tuning(tmp_path / "all" / "new", commit="bbbbbbb", started="2026-03-02T09:00:00+00:00")
    record_tried(tmp_path / "alone", [new])
    for number, folders in enumerate(([new, new], [new, old], [old, new], [tmp_path / "all", old], [tmp_path / "all"])):
        record_tried(tmp_path / f"results{number}", folders)
        assert rows_of(tmp_path / f"results{number}", "tuning") == rows_of(tmp_path / "alone", "tuning")


def test_splits_of_an_older_run_stay_beside_those_of_a_newer_one(tmp_path: Path) -> None:
    old = runs.tuning(tmp_path / "old", likelihood=-2.0, commit="aaaaaaa")
    new = runs.tuning(tmp_path / "new", likelihood=-1.0, commit="bbbbbbb", started="2026-03-02T09:00:00+00:00")
    lines = (new / REPLICAS).read_text().splitlines(keepends=True)
    (new / REPLICAS).write_text("".join(lines[:3]))  # two of five
    record_tried(tmp_path / "results", [new, old])
    (row,) = rows_of(tmp_path / "results", "tuning")
    assert (row["splits"], row["models"], row["commit"]) == ("0-4", "5", "bbbbbbb")
    assert float(row["log_likelihood"]) == pytest.approx((2 * -1.0 + 3 * -2.0) / 5, abs=0.1)


def test_single_runs_with_other_seeds_are_one_setting(tmp_path: Path) -> None:
    folders = [runs.configure(runs.mnist(tmp_path / f"run{seed}", seed), seed=seed) for seed in (0, 1, 3)]
    record_tried(tmp_path / "results", folders)
    (row,) = rows_of(tmp_path / "results", "tuning")
    assert (row["experiment"], row["seeds"], row["models"], row["accuracy"]) == ("mnist", "0-1 3", "3", "0.98644")
    assert row["converged"] == "3 of 3"


def test_runs_that_cannot_count_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = runs.tuning(tmp_path / "running", state="running")
    foreign = runs.tuning(tmp_path / "foreign")
    RunFolder(foreign).update_json(RUN, experiment="csv")
    blind = runs.tuning(tmp_path / "blind")
    (blind / REPLICAS).unlink()
    record_tried(tmp_path / "results", [running, foreign, blind])
    said = capsys.readouterr().err
    assert "running: left out, it is running" in said
    assert "foreign: left out, csv is none of the paper's" in said
    assert "blind: left out, it has no scores on validation data" in said
    assert not (tmp_path / "results").exists()
    with pytest.raises(UserError, match="missing"):
        record_tried(tmp_path / "results", [tmp_path / "missing"])


def test_runs_without_test_scores_are_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path / "results", [runs.tuning(tmp_path / "run")])
    assert "run: left out, it has no scores on test data" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def tried_page(root: Path) -> str:
    return made(root)[root / RESULTS / TRIED]


def test_a_page_of_its_own_has_a_table_for_every_set_with_the_best_in_bold(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    assert "**Not run yet.**" in section(made(root)[root / PAGE], TITLE)
    assert root / RESULTS / TRIED not in made(root)
    for number, (name, likelihood, more) in enumerate(
        (("yacht", -1.0, "optim.lr=0.1"), ("yacht", -0.5, "optim.lr=0.01"), ("boston", -2.0, "optim.lr=0.01"))
    ):
        folder = runs.tuning(tmp_path / str(number), name, likelihood, f"{more} trainer.max_steps=800")
        assert main(["tried", str(folder)], root) == 0
    text = tried_page(root)
    yacht = section(text, "yacht")
    assert "All of these with `trainer.max_steps=800`." in yacht
    best = cells(yacht, "Concrete | `optim.lr=0.01`")
    assert best[6].startswith("**−0.")
    assert not cells(yacht, "Concrete | `optim.lr=0.1`")[6].startswith("**")
    # With nothing to compare it with, nothing is the best.
    boston = section(text, "boston")
    assert "**" not in boston
    own = "python train.py experiment=uci data.name=boston data.val_fraction=0.1 test=false optim.lr=0.01"
    assert cells(boston, f"`{own} trainer.max_steps=800`")[1] == "1"
    overview = section(made(root)[root / PAGE], TITLE)
    assert f"]({RESULTS.name}/{TRIED})" in overview
    assert f"[tuning.csv]({RESULTS.name}/tuning.csv)" in overview
    assert (cells(overview, "yacht"), cells(overview, "boston")) == (["yacht", "2", "10"], ["boston", "1", "5"])


def test_of_many_settings_the_best_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    root = place_of(tmp_path / "project")
    for number in range(MOST + 3):
        folder = runs.tuning(tmp_path / str(number), "yacht", -1.0 - number, f"optim.lr=0.{number + 1}")
        record_tried(root / RESULTS, [folder])
    path = root / RESULTS / "tuning.csv"
    worst = min(rows_of(root / RESULTS, "tuning"), key=lambda row: float(row["log_likelihood"]))
    path.write_text(path.read_text().replace(worst["rmse"], "0.25"))
    text = tried_page(root)
    shown = [line for line in text.splitlines() if line.startswith("| Concrete")]
    assert len(shown) == MOST + 1  # the best by another score stays
    assert "**0.25" in shown[-1]
    assert "2 settings of lower likelihood: in the file alone." in text
