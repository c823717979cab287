"""A mean is over runs under the same conditions: when a config changes, rows of before go to a file of their own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.docs import result_runs as runs
from tests.docs.test_results import ROOT, rows_of
from tests.report.replica_runs import write_replicas
from tools.measured.command import add
from tools.measured.experiments import EXPERIMENTS, Experiment, experiment_of
from tools.measured.store import read_rows, renewed, replaced_sheet, write_rows

from concrete_dropout.runfolder import STUDY, RunFolder

DAYS = [f"2026-03-0{day}T12:00:00+00:00" for day in range(1, 6)]


def table(
    path: Path,
    splits: int,
    kl_weight: float = 6.0,
    day: int = 0,
    settings: str = "",
    typed: str = "",
    experiment: str = "uci_table",
) -> Path:
    """A study of boston, whose KL weight and ``settings`` are from the config, and not from what was ``typed``."""
    command = f"python train.py experiment={experiment} {typed}".strip()
    facts = {**runs.FACTS, "started": DAYS[day], "command": f"{command} study=null data.name=boston {settings}".strip()}
    labels: list[dict[str, Any]] = [{"data.split": split} for split in range(splits)]
    write_replicas(path / "boston", labels, scores=(-2.5, 3.0), dropout="concrete", experiment=experiment, **facts)
    runs.configure(path / "boston", data={"name": "boston", "split": 0}, task={"kl_weight": kl_weight})
    member = {"label": "boston", "folder": "boston", "values": {"data.name": "boston"}, "state": "finished"}
    RunFolder(path).write_json(STUDY, {"kind": "uci_table", "command": command, "runs": [member]})
    return path


def shown(results: Path, name: str = "uci") -> list[tuple[str, str, str]]:
    if not (results / f"{name}.csv").is_file():
        return []
    return sorted((row["split"], row["kl_weight"], row["started"][8:10]) for row in rows_of(results, name))


def texts(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.iterdir()}


def test_some_splits_under_other_conditions_replace_all_of_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    add(results, [table(tmp_path / "old", 4)])
    assert not (results / "uci_replaced.csv").exists()
    add(results, [table(tmp_path / "new", 2, kl_weight=8.0, day=1)])
    assert shown(results) == [("0", "8", "02"), ("1", "8", "02")]
    assert shown(results, "uci_replaced") == [(str(split), "6", "01") for split in range(4)]
    assert "uci_replaced.csv: 4 rows of other settings (0 before)" in capsys.readouterr().out


def test_what_is_added_again_or_in_another_order_changes_nothing(tmp_path: Path) -> None:
    folders = [
        table(tmp_path / "a", 4),
        table(tmp_path / "b", 3, kl_weight=8.0, day=1),
        table(tmp_path / "c", 2, kl_weight=9.0, day=2),
    ]
    found = []
    for number, order in enumerate(itertools.permutations(folders)):
        for folder in (*order, folders[0]):
            add(tmp_path / f"results{number}", [folder])
        found.append(texts(tmp_path / f"results{number}"))
    add(tmp_path / "at_once", folders)
    assert all(one == texts(tmp_path / "at_once") for one in found)
    assert shown(tmp_path / "at_once") == [("0", "9", "03"), ("1", "9", "03")]
    assert len(shown(tmp_path / "at_once", "uci_replaced")) == 4 + 3


def test_rows_under_the_same_conditions_are_renewed_and_not_kept(tmp_path: Path) -> None:
    results = tmp_path / "results"
    add(results, [table(tmp_path / "old", 3), table(tmp_path / "new", 2, day=1)])
    assert shown(results) == [("0", "6", "02"), ("1", "6", "02"), ("2", "6", "01")]
    assert not (results / "uci_replaced.csv").exists()
    # Of replaced ones the newest stays as well.
    add(results, [table(tmp_path / "other", 1, kl_weight=8.0, day=2)])
    assert shown(results, "uci_replaced") == [("0", "6", "02"), ("1", "6", "02"), ("2", "6", "01")]


def test_rows_come_back_when_the_config_does(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for folder in (
        table(tmp_path / "a", 3),
        table(tmp_path / "b", 3, kl_weight=8.0, day=1),
        table(tmp_path / "c", 1, day=2),
    ):
        add(results, [folder])
    assert shown(results) == [("0", "6", "03"), ("1", "6", "01"), ("2", "6", "01")]
    assert {weight for _, weight, _ in shown(results, "uci_replaced")} == {"8"}


def test_settings_of_a_set_that_have_no_column_count_too(tmp_path: Path) -> None:
    add(tmp_path / "results", [table(tmp_path / "old", 2), table(tmp_path / "new", 1, day=1, settings="optim.lr=0.01")])
    assert shown(tmp_path / "results") == [("0", "6", "02")]
    assert len(shown(tmp_path / "results", "uci_replaced")) == 2


def test_what_was_typed_is_another_setting_and_replaces_nothing(tmp_path: Path) -> None:
    other = table(tmp_path / "new", 2, kl_weight=8.0, day=1, typed="task.kl_weight=8.0")
    add(tmp_path / "results", [table(tmp_path / "old", 2), other])
    assert len(shown(tmp_path / "results")) == 4
    assert not (tmp_path / "results" / "uci_replaced.csv").exists()


def test_a_set_by_itself_does_not_replace_the_table(tmp_path: Path) -> None:
    alone = table(tmp_path / "alone", 1, kl_weight=1.0, day=1, experiment="uci")
    for order in ((tmp_path / "table", alone), (alone, tmp_path / "table")):
        table(tmp_path / "table", 2)
        for folder in order:
            add(tmp_path / "results", [folder])
        assert shown(tmp_path / "results") == [("0", "6", "01"), ("1", "6", "01")]
        assert shown(tmp_path / "results", "uci_replaced") == [("0", "1", "02")]


def row(experiment: Experiment, **cells: str) -> dict[str, str]:
    own = {"dropout": "concrete", "seed": "0", "state": "finished", "started": DAYS[0], "command": experiment.command}
    return {**dict.fromkeys(experiment.columns, ""), **own, **cells}


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [("mnist", "", 1), ("camvid", "", 2), ("mnist", "callbacks=early_stopping", 2), ("cartpole", "", 2)],
)
def test_steps_count_where_all_seeds_make_as_many(name: str, settings: str, count: int) -> None:
    experiment = experiment_of(name)
    assert experiment is not None
    old = row(experiment, settings=settings, steps="300")
    new = row(experiment, settings=settings, steps="400", seed="1", started=DAYS[1])
    now, replaced = renewed(experiment, [old, new])
    assert len(now) == count
    assert len(replaced) == 2 - count


def test_what_an_old_file_does_not_know_replaces_nothing() -> None:
    experiment = experiment_of("mnist")
    assert experiment is not None
    old = row(experiment, train_samples="", steps="300")
    new = row(experiment, train_samples="4", steps="300", seed="1", started=DAYS[1])
    assert renewed(experiment, [old, new]) == ([old, new], [])


@pytest.mark.parametrize(("dropout", "p"), [("none", "0"), ("fixed", "0.1"), ("fixed", "0.003")])
def test_controls_of_before_do_not_stand_beside_newer_rows(dropout: str, p: str) -> None:
    experiment = experiment_of("uci_rmse")
    assert experiment is not None
    old = row(experiment, set="power", dropout=dropout, p=p, kl_weight="15")
    new = row(experiment, set="power", kl_weight="12", started=DAYS[1])
    other = row(experiment, set="wine", dropout=dropout, p=p, kl_weight="2.5")
    assert renewed(experiment, [old, new, other]) == ([new, other], [old])


@pytest.mark.parametrize(("dropout", "p_lr"), [("none", ""), ("fixed", ""), ("concrete", "0.1")])
def test_the_learning_rate_of_p_counts_where_p_is_learned(tmp_path: Path, dropout: str, p_lr: str) -> None:
    path = runs.write_segmentation(tmp_path / "run", dropout=dropout, experiment="camvid_table")
    runs.configure(path, optim={"p_lr": 0.1})
    add(tmp_path / "results", [path])
    assert [found["p_lr"] for found in rows_of(tmp_path / "results", "camvid_small")] == [p_lr]


def test_figures_are_of_the_runs_that_have_rows(tmp_path: Path) -> None:
    def run(name: str, p_lr: float, seed: int, day: int) -> Path:
        path = runs.camvid(tmp_path / name, seed, started=DAYS[day])
        return runs.configure(path, optim={"p_lr": p_lr}) if p_lr else path

    before = [run("old_0", 0.1, 0, 1), run("old_1", 0.1, 1, 0)]
    now = [run("new_0", 0.05, 0, 0), run("new_1", 0.05, 1, 2)]  # the first is older than the one that it replaces
    results = tmp_path / "results"
    for folders in (before, now, before):  # what was replaced does not come back
        add(results, folders)
    files = ("camvid_small", "camvid_small_calibration", "camvid_small_history", "camvid_small_sources")
    for name in files:
        assert {(row["seed"], row["started"]) for row in rows_of(results, name)} == {("0", DAYS[0]), ("1", DAYS[2])}
    assert {row["started"] for row in rows_of(results, "camvid_small_maps")} == {DAYS[0]}  # of the first seed


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_files_of_this_repository_are_parted_like_this(experiment: Experiment, tmp_path: Path) -> None:
    results = ROOT / "docs" / "results"
    sheets = (experiment, replaced_sheet(experiment))
    known = [read_rows(results, sheet) for sheet in sheets]
    parted = renewed(experiment, [row for rows in known for row in rows])
    for sheet, rows in zip(sheets, parted, strict=True):
        path = results / f"{sheet.name}.csv"
        if rows or path.is_file():
            write_rows(tmp_path, sheet, rows)
            assert (tmp_path / path.name).read_text() == path.read_text()
