"""Runs become rows: the same run twice changes nothing, a newer one replaces an older one, stopped ones are marked."""

from __future__ import annotations

import csv
import doctest
import importlib
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs import result_runs as runs
from tests.report.replica_runs import write_replicas
from tools.measured.command import add, main
from tools.measured.commands import changes
from tools.measured.experiments import EXPERIMENTS, experiment_of
from tools.measured.sheets import SHEETS
from tools.measured.store import read_rows, write_rows

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RUN, STUDY, RunFolder

ROOT = Path(__file__).parents[2]
MODULES = [f"tools.measured.{path.stem}" for path in sorted((ROOT / "tools" / "measured").glob("[a-z]*.py"))]


def rows_of(results: Path, name: str) -> list[dict[str, str]]:
    with (results / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return runs.everything(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def results(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    add(place, folders)
    return place


def test_examples_hold() -> None:
    done = [doctest.testmod(importlib.import_module(name)) for name in MODULES]
    assert sum(one.attempted for one in done) >= 9
    assert sum(one.failed for one in done) == 0


def test_every_experiment_of_conf_that_is_the_papers_has_its_place() -> None:
    other = {"control", "csv", "digits", "image_folder", "scenes", "seg_folder"}
    for path in (ROOT / "conf" / "experiment").glob("*.yaml"):
        assert (experiment_of(path.stem) is None) == (path.stem in other), path.stem


def test_rows_have_settings_scores_p_and_where_they_come_from(results: Path) -> None:
    first = rows_of(results, "uci")[0]
    assert {key: first[key] for key in ("set", "dropout", "p", "split", "seed", "settings")} == {
        "set": "boston",
        "dropout": "none",
        "p": "0",
        "split": "0",
        "seed": "0",
        "settings": "",
    }
    learned = next(row for row in rows_of(results, "uci") if row["dropout"] == "concrete")
    assert -3 < float(learned["log_likelihood"]) < -2
    assert learned["learned_p"].startswith("network.layers.0=0.0004 network.layers.2=")
    assert (learned["converged"], learned["replicas"], learned["seconds"]) == ("true", "20", "600")
    assert (learned["commit"], learned["hardware"], learned["steps"]) == ("3dbc73f0a1b2", runs.HARDWARE, "600")
    assert learned["study"] == "python train.py experiment=uci_table dropout=concrete"
    assert len(rows_of(results, "uci")) == 3 * 2 * 20


def test_controls_have_their_p_and_nothing_to_converge(results: Path) -> None:
    for name in ("synthetic", "uci", "mnist", "camvid_small"):
        rows = rows_of(results, name)
        assert {(row["dropout"], row["p"]) for row in rows} == {("none", "0"), ("fixed", "0.2"), ("concrete", "")}
        assert {row["learned_p"] for row in rows if row["dropout"] != "concrete"} == {""}
        assert {row["converged"] for row in rows if row["dropout"] == "concrete"} == {"true"}
        assert {row["converged"] for row in rows if row["dropout"] == "none"} == {""}


def test_replicas_are_rows_of_their_own(results: Path) -> None:
    rows = [row for row in rows_of(results, "synthetic") if row["dropout"] == "concrete"]
    assert [(row["num_data"], row["seed"]) for row in rows][:4] == [("10", "0"), ("10", "1"), ("10", "2"), ("25", "0")]
    assert len(rows) == len(runs.SIZES)
    assert len({row["epistemic_std"] for row in rows}) == len(rows)


@pytest.mark.parametrize("kind", ["concrete", "fixed"])
def test_replicas_with_priors_and_p_of_their_own_are_told_apart(kind: str, tmp_path: Path) -> None:
    labels = [{"seed": 0, "dropout.length_scale": scale, "dropout.p": p} for scale in (0.1, 1.0) for p in (0.05, 0.2)]
    facts = {**runs.FACTS, "command": "python train.py experiment=synthetic optim.lr=0.01"}
    folder = write_replicas(tmp_path / "run", labels, dropout=kind, experiment="synthetic", **facts)
    add(tmp_path / "results", [runs.configure(folder, kind, data={"num_data": 100})])
    rows = rows_of(tmp_path / "results", "synthetic")
    scales = {f"dropout.length_scale={scale} optim.lr=0.01" for scale in (0.1, 1.0)}
    assert {row["settings"] for row in rows} == scales
    assert {row["p"] for row in rows} == ({"0.05", "0.2"} if kind == "fixed" else {""})


def test_replicas_have_the_facts_of_their_own(tmp_path: Path) -> None:
    labels = [{"data.split": 0, "task.kl_weight": weight} for weight in (2.0, 0.5)]
    facts = {**runs.FACTS, "command": "python train.py experiment=uci data.name=yacht"}
    folder = write_replicas(tmp_path / "run", labels, experiment="uci", **facts)
    add(tmp_path / "results", [runs.configure(folder, data={"name": "yacht"}, task={"kl_weight": 1.0})])
    found = {row["settings"]: row["kl_weight"] for row in rows_of(tmp_path / "results", "uci")}
    assert found == {"task.kl_weight=2.0": "2", "task.kl_weight=0.5": "0.5"}


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ("experiment=mnist", False),
        ("experiment=camvid_table", False),
        ("experiment=camvid", True),
        ("experiment=mnist test_ckpt=best", True),
        ("experiment=mnist callbacks=early_stopping", True),
    ],
)
def test_how_often_is_validated_counts_where_that_chooses_the_weights(given: str, counts: bool) -> None:
    key = "trainer.check_val_every_n_epoch"
    assert (f"{key}=5" in changes(f"python train.py {given} {key}=5", {}, ())) == counts
    assert (f"{key}=5" in changes(f"python train.py {given}", {key: 5}, ())) == counts


def test_agents_have_a_row_for_every_episode(results: Path) -> None:
    rows = [row for row in rows_of(results, "cartpole") if row["dropout"] == "concrete"]
    assert [(row["seed"], row["episode"], row["reward"]) for row in rows] == [
        ("0", "1", "2"),
        ("0", "2", "17"),
        ("1", "1", "2"),
        ("1", "2", "9"),
    ]
    assert rows[1]["learned_p"] == "layers.3=0.1 layers.6=0.1"
    assert (rows[0]["p_change"], rows[0]["epistemic_theta"], rows[0]["seconds"]) == ("0.01", "0.1", "9")


def test_no_cell_names_a_place_on_this_machine(results: Path, folders: list[Path]) -> None:
    text = "".join(path.read_text() for path in results.glob("*.csv"))
    assert str(folders[0].parent) not in text
    assert "/somewhere" not in text
    assert "hydra.run.dir" not in text


def test_adding_again_in_any_order_changes_nothing(folders: list[Path], results: Path, tmp_path: Path) -> None:
    shuffled = list(folders)
    random.Random(1).shuffle(shuffled)
    for folder in shuffled:
        add(tmp_path, [folder])
    add(tmp_path, folders)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in results.iterdir()
    }


def test_a_folder_inside_of_a_study_gives_the_rows_that_the_study_gives(folders: list[Path], tmp_path: Path) -> None:
    study = next(folder for folder in folders if folder.name == "uci_concrete")
    add(tmp_path / "whole", [study])
    add(tmp_path / "parts", [study / "yacht", study / "boston"])
    assert (tmp_path / "whole" / "uci.csv").read_text() == (tmp_path / "parts" / "uci.csv").read_text()


def test_a_folder_of_runs_is_searched(tmp_path: Path) -> None:
    for seed in (0, 1):
        runs.mnist(tmp_path / "mnist" / f"run{seed}", seed)
    add(tmp_path / "results", [tmp_path / "mnist"])
    assert [row["seed"] for row in rows_of(tmp_path / "results", "mnist")] == ["0", "1"]


def test_a_newer_run_replaces_an_older_one_of_the_same_setting(tmp_path: Path) -> None:
    old = runs.mnist(tmp_path / "old", commit="aaaaaaa")
    new = runs.mnist(tmp_path / "new", commit="bbbbbbb", started="2026-03-02T09:00:00+02:00")
    other = runs.mnist(tmp_path / "other", more="trainer.max_epochs=500", commit="ccccccc")
    for order in ((old, new, other), (new, other, old)):
        for folder in order:
            add(tmp_path / "results", [folder])
        found = {row["settings"]: row["commit"] for row in rows_of(tmp_path / "results", "mnist")}
        assert found == {"": "bbbbbbb", "trainer.max_epochs=500": "ccccccc"}


def test_jobs_of_a_sweep_have_what_it_varied(tmp_path: Path) -> None:
    jobs = []
    for number, (kind, p) in enumerate((("fixed", 0.1), ("fixed", 0.5), ("concrete", 0.1))):
        place = runs.mnist(tmp_path / "sweep" / str(number), kind=kind)
        runs.configure(place, kind, p)
        values = {"dropout.kind": kind, "dropout.p": p, "optim.lr": 0.01}
        jobs.append({"label": f"{number}", "folder": place.name, "values": values, "state": "finished"})
    command = "python train.py -m experiment=mnist dropout.p=0.1,0.5 optim.lr=0.001,0.01 threads=1"
    RunFolder(tmp_path / "sweep").write_json(STUDY, {"kind": "comparison", "command": command, "runs": jobs})
    add(tmp_path / "results", [tmp_path / "sweep"])
    found = [(row["dropout"], row["p"], row["settings"]) for row in rows_of(tmp_path / "results", "mnist")]
    assert found == [(kind, p, "optim.lr=0.01") for kind, p in (("fixed", "0.1"), ("fixed", "0.5"), ("concrete", ""))]


def test_stopped_agents_are_left_out_or_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = runs.cartpole_study(tmp_path / "study", {("none", 0): [1.0, 2.0, 3.0], ("fixed", 0): [4.0, 5.0, 6.0]})
    runs.stop(study / "dropout.kind=fixed,seed=0", 2)
    add(tmp_path / "results", [study])
    assert {row["dropout"] for row in rows_of(tmp_path / "results", "cartpole")} == {"none"}
    assert "dropout.kind=fixed,seed=0: left out, it is interrupted" in capsys.readouterr().err

    add(tmp_path / "results", [study], unfinished=True)
    found = {(row["dropout"], row["state"]): row["reward"] for row in rows_of(tmp_path / "results", "cartpole")}
    assert found == {("none", "finished"): "3", ("fixed", "interrupted"): "5"}

    whole = runs.cartpole_study(tmp_path / "whole", {("fixed", 0): [7.0, 8.0, 9.0]}, "2026-02-01T12:00:00+00:00")
    for folder in (whole, study):  # the stopped run is newer, and still no match for one that came to its end
        add(tmp_path / "results", [folder], unfinished=True)
    fixed = [row for row in rows_of(tmp_path / "results", "cartpole") if row["dropout"] == "fixed"]
    assert [(row["reward"], row["state"]) for row in fixed] == [(text, "finished") for text in "789"]


def test_runs_that_cannot_count_are_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = runs.mnist(tmp_path / "foreign", experiment="digits")
    running = runs.mnist(tmp_path / "running", state="running")
    untested = runs.mnist(tmp_path / "untested")
    RunFolder(untested).update_json("summary.json", metrics={})
    for name in ("metrics.csv", "calibration.json", "uncertainty.json"):
        (untested / name).unlink()
    add(tmp_path / "results", [foreign, running, untested], unfinished=True)
    said = capsys.readouterr().err
    assert "foreign: left out, digits is none of the paper's" in said
    assert "running: left out, it is running" in said
    assert "untested: left out, it has no scores on test data" in said
    assert not (tmp_path / "results").exists()


def test_a_moving_p_is_no_converged_one(tmp_path: Path) -> None:
    add(tmp_path / "results", [runs.mnist(tmp_path / "run", moving=(1,))])
    assert rows_of(tmp_path / "results", "mnist")[0]["converged"] == "false"


def test_a_folder_without_a_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    good, empty = runs.mnist(tmp_path / "run"), tmp_path / "empty"
    empty.mkdir()
    for bad in (empty, tmp_path / "missing", good / RUN):
        with pytest.raises(UserError, match=str(bad)):
            add(tmp_path / "results", [good, bad])
    assert not (tmp_path / "results").exists()
    assert main(["add", str(empty)], tmp_path) == 2


def test_the_command_itself(tmp_path: Path) -> None:
    command = [sys.executable, "tools/results.py", "add", str(tmp_path / "missing")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


def test_the_files_of_this_repository_are_as_the_tool_writes_them(tmp_path: Path) -> None:
    for sheet in (*EXPERIMENTS, *SHEETS):
        path = ROOT / "docs" / "results" / f"{sheet.name}.csv"
        if path.is_file():
            write_rows(tmp_path, sheet, read_rows(path.parent, sheet))
            assert (tmp_path / path.name).read_text() == path.read_text(), path.name
