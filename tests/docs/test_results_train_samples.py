"""Several masks per step in training against one: runs that differ in nothing else are put side by side."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results import rows_of
from tests.docs.test_results_page import cells, place_of, section
from tools.measured.command import add
from tools.measured.experiments import experiment_of
from tools.measured.page import PAGE, RESULTS, made
from tools.measured.store import read_rows
from tools.measured.train_samples_section import TITLE, Comparison, comparisons

LATER = {"started": "2026-03-02T12:00:00+00:00", "ended": "2026-03-02T12:30:00+00:00"}


def run(path: Path, seed: int, masks: int, more: str = "", kind: str = "concrete", **facts: str) -> Path:
    runs.mnist(path, seed, kind, more, **facts)
    return runs.configure(path, kind, seed=seed, task={"train_samples": masks})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The default of four masks, which no command names, beside one; and what cannot be compared."""
    place = place_of(tmp_path / "project")
    folders = [run(tmp_path / f"four{seed}", seed, 4, **LATER) for seed in (0, 1)]
    folders += [run(tmp_path / f"one{seed}", seed, 1, "task.train_samples=1") for seed in (0, 1)]
    folders.append(run(tmp_path / "other", 0, 8, "task.train_samples=8 trainer.max_epochs=3"))
    folders += [run(tmp_path / f"none{masks}", 0, masks, f"task.train_samples={masks}", "none") for masks in (1, 4)]
    add(place / RESULTS, folders)
    return place


def test_rows_know_the_number_of_masks_whether_it_was_typed_or_not(root: Path) -> None:
    found = {(row["settings"], row["train_samples"]) for row in rows_of(root / RESULTS, "mnist")}
    assert {("", "4"), ("task.train_samples=1", "1")} <= found


def test_only_runs_that_differ_in_nothing_else_are_compared(root: Path) -> None:
    experiment = experiment_of("mnist")
    assert experiment is not None
    (found,) = comparisons(experiment, read_rows(root / RESULTS, experiment))
    assert (found.values["dropout"], found.values["settings"]) == ("concrete", "")
    assert {masks: len(group.rows) for masks, group in found.groups.items()} == {"1": 2, "4": 2}
    gain = found.gain("4")
    assert gain is not None
    assert (gain.mean, gain.count) == (pytest.approx(0.0), 2)
    assert found.verdict == 0


def row(seed: int, masks: int, likelihood: float, **more: str) -> dict[str, str]:
    known = {"dropout": "concrete", "p": "", "seed": str(seed), "log_likelihood": str(likelihood)}
    known |= {"train_samples": str(masks), "settings": "", "state": "finished", "started": f"2026-03-0{seed + 1}"}
    return {**known, "hardware": "a", "command": f"python train.py experiment=mnist seed={seed}", **more}


def compared(rows: list[dict[str, str]]) -> Comparison:
    experiment = experiment_of("mnist")
    assert experiment is not None
    (found,) = comparisons(experiment, rows)
    return found


def test_pairs_of_a_seed_are_compared_and_a_single_one_tells_nothing() -> None:
    # Seeds differ by far more than masks do.
    rows = [row(seed, masks, 10 * seed + 0.1 * masks + 0.01 * seed * masks) for seed in (0, 1, 2) for masks in (1, 4)]
    found = compared(rows)
    gain = found.gain("4")
    assert gain is not None
    assert gain.mean == pytest.approx(0.33)
    assert gain.se == pytest.approx(0.03 / 3**0.5)
    assert found.verdict == 1
    assert compared([{**r, "log_likelihood": f"-{r['log_likelihood']}"} for r in rows]).verdict == -1
    assert compared(rows[:2]).verdict is None
    assert compared([rows[0], rows[3], rows[5]]).verdict is None  # no seed with both


def test_a_default_that_was_typed_as_well_counts_once(root: Path, tmp_path: Path) -> None:
    experiment = experiment_of("mnist")
    assert experiment is not None
    add(root / RESULTS, [run(tmp_path / "again", 0, 4, "task.train_samples=4")])
    (found,) = comparisons(experiment, read_rows(root / RESULTS, experiment))
    assert {masks: len(group.rows) for masks, group in found.groups.items()} == {"1": 2, "4": 2}


def test_files_without_the_column_are_read(root: Path) -> None:
    path = root / RESULTS / "mnist.csv"
    rows = rows_of(root / RESULTS, "mnist")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "train_samples"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    text = made(root)[root / PAGE]
    assert "98.64 ± 0.00" in section(text, "MNIST: accuracy")
    # What was not typed is not known then, and nothing is compared with it.
    assert "**Not run yet.**" in section(text, TITLE)


def test_the_page_has_a_table_and_a_line(root: Path, tmp_path: Path) -> None:
    text = made(root)[root / PAGE]
    table = section(text, TITLE)
    one, four = cells(table, "Concrete | 1"), cells(table, "Concrete | 4")
    assert one[2:4] == ["−0.051 ± 0.000", "98.64 ± 0.00"]
    assert one[4:6] == ["–", "2"]
    assert four[4:6] == ["0.000 ± 0.000", "2"]
    assert cells(section(text, "In short"), f"[{TITLE}]")[2:4] == ["0, 0 of 1", "2"]
    assert (
        "| `python train.py experiment=mnist seed=SEED dropout=concrete task.train_samples=1 logger=none` | 2 |"
        in table
    )
    one_seed = [row for row in rows_of(root / RESULTS, "mnist") if row["seed"] == "0"]
    with (root / RESULTS / "mnist.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(one_seed[0]))
        writer.writeheader()
        writer.writerows(one_seed)
    short = section(made(root)[root / PAGE], "In short")
    assert cells(short, f"[{TITLE}]")[2:4] == ["too few seeds to tell: 1", "1"]
    empty = section(made(place_of(tmp_path / "empty"))[tmp_path / "empty" / PAGE], TITLE)
    assert "`python train.py experiment=synthetic_study task.train_samples=4`" in empty
