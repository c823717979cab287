"""Sweeps through train.py: jobs on two processes, jobs that fail, what is made again, and the report of them all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from .test_devices import alive
from .test_train import ROOT, Command, inspect, read_json

TINY = [
    "data.num_data=40",
    "data.num_val=31",
    "data.num_test=21",
    "model.hidden=[8]",
    "task.val_samples=2",
    "task.test_samples=2",
    "callbacks.uncertainty.band_samples=5",
    "trainer.max_steps=6",
    "data.min_steps_per_epoch=3",
]
BROKEN = [
    "+callbacks.broken._target_=tests.probes.Broken",
    "+callbacks.broken.seed=1",
    "+callbacks.broken.rank=1",
    "+callbacks.broken.mended=mended",
    "+callbacks.broken.own_seed=${seed}",
    "+callbacks.keep._target_=tests.probes.KeepConfig",
    "+callbacks.keep.folder=${paths.run_dir}",
    "+callbacks.keep.label=${seed}",
]


@pytest.fixture(scope="module", autouse=True)
def _probes_can_be_imported() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps")


@pytest.fixture(scope="module")
def failing(place: Path) -> tuple[Command, Path]:
    """Three jobs of two processes each, of which the second job's second process fails in its first epoch."""
    command = Command(place, "-m", *TINY, *BROKEN, "trainer=ddp_cpu", "seed=0,1,2").wait(600)
    (folder,) = (place / "work" / "outputs" / "synthetic").iterdir()
    return command, folder


def states(folder: Path) -> list[str]:
    return [read_json(folder / name / "job.json")["state"] for name in ("0", "1", "2")]


def test_a_failing_process_ends_its_job_and_no_other(place: Path, failing: tuple[Command, Path]) -> None:
    command, folder = failing
    assert command.code == 1, command.err
    assert states(folder) == ["finished", "failed", "finished"]
    error = read_json(folder / "1" / "run.json")["error"]
    assert re.fullmatch(r"rank 1 failed: RuntimeError: broken on purpose in \d+", error)
    assert not alive(int(error.split()[-1]))
    ended = datetime.fromisoformat(read_json(folder / "1" / "job.json")["ended"]).timestamp()
    assert ended - (place / "work" / "broken_at").stat().st_mtime < 15  # of which most is the report
    assert "broken on purpose" in (folder / "1" / "run.log").read_text()
    assert "1 of 3 jobs failed:\n  seed=1: RunFailedError: rank 1 failed: RuntimeError: broken" in command.err
    assert "Traceback" not in command.err


def test_every_job_has_one_folder_and_one_config(failing: tuple[Command, Path]) -> None:
    _, folder = failing
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"0", "1", "2"}
    for seed in (0, 2):
        ranks = [read_json(folder / str(seed) / f"rank_{rank}.json") for rank in (0, 1)]
        assert ranks == [{"label": seed, "world_size": 2}] * 2
        record = read_json(folder / str(seed) / "run.json")
        assert (record["state"], record["seed"], record["step"]) == ("finished", seed, 6)
        assert f"seed={seed}" in record["command"]


def test_one_wandb_group_and_a_run_for_each_job(failing: tuple[Command, Path]) -> None:
    pytest.importorskip("wandb")
    _, folder = failing
    ids = set()
    for number in ("0", "2"):
        (run,) = (folder / number / "wandb").glob("offline-run-*")
        (header,) = [record["run"] for record in inspect(run) if record["type"] == "run"]
        assert header["run_group"] == f"synthetic/{folder.name}"
        ids.add(header["run_id"])
    assert len(ids) == 2


def test_the_report_compares_the_jobs(failing: tuple[Command, Path]) -> None:
    command, folder = failing
    study = read_json(folder / "study.json")
    assert [(run["label"], run["state"]) for run in study["runs"]] == [
        ("seed=0", "finished"),
        ("seed=1", "failed"),
        ("seed=2", "finished"),
    ]
    page = (folder / "report.html").read_text()
    assert "broken on purpose" in page
    assert "1 run failed" in page
    assert "report.html" in command.out


def test_resume_makes_only_what_failed(place: Path, failing: tuple[Command, Path]) -> None:
    _, folder = failing
    before = {number: (folder / number / "run.json").read_text() for number in ("0", "2")}
    (place / "work" / "mended").touch()
    again = Command(place, "-m", *TINY, *BROKEN, "trainer=ddp_cpu", "seed=0,1,2", "resume=true").wait(600)
    assert again.code == 0, again.err
    assert states(folder) == ["finished"] * 3
    assert {number: (folder / number / "run.json").read_text() for number in ("0", "2")} == before
    assert read_json(folder / "1" / "run.json")["step"] == 6
    assert "job 0 is finished already" in again.out


# Other sweepers and launchers, on two processes -----------------------------------------------------------------------


def check_two_jobs(command: Command, folder: Path) -> None:
    assert command.code == 0, command.err
    check_jobs(folder, "0", "1")


def check_jobs(folder: Path, *numbers: str) -> None:
    for number in numbers:
        record = read_json(folder / number / "run.json")
        assert (record["state"], record["step"]) == ("finished", 6)
        ranks = [read_json(folder / number / f"rank_{rank}.json") for rank in (0, 1)]
        assert ranks[0] == ranks[1]
        assert ranks[0]["world_size"] == 2
    assert (folder / "report.html").is_file()


def two_jobs(place: Path, *arguments: str, rank: int = 1) -> tuple[Command, Path]:
    """Two jobs, of which the first fails in one of its processes."""
    folder = place / "sweep"
    broken = [entry for entry in BROKEN if "seed=" not in entry and "rank=" not in entry]
    broken += ["+callbacks.broken.seed=0", "+callbacks.broken.own_seed=${hydra:job.num}"]
    broken += [f"+callbacks.broken.rank={rank}"]
    common = [*TINY, *broken, "logger=none", f"hydra.sweep.dir='{folder}'"]
    command = Command(place, "-m", *common, *arguments).wait(600)
    assert command.code == 1, command.err
    assert "1 of 2 jobs failed" in command.err
    assert "Traceback" not in command.err
    assert [read_json(folder / number / "job.json")["state"] for number in ("0", "1")] == ["failed", "finished"]
    error = read_json(folder / "0" / "run.json")["error"]
    assert "broken on purpose" in error
    assert not alive(int(error.split()[-1]))
    assert "broken on purpose" in (folder / "report.html").read_text()
    return command, folder


def test_optuna(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    _, folder = two_jobs(tmp_path, "trainer=ddp_cpu", "sweep=optuna", "hydra.sweeper.n_trials=2")
    check_jobs(folder, "1")
    found = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    value = read_json(folder / "1" / "summary.json")["metrics"]["val/nll"]
    assert found["best_value"] == pytest.approx(value)


def test_submitit_local(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    _, folder = two_jobs(tmp_path, "trainer=ddp_cpu", "hydra/launcher=submitit_local", "seed=0,1")
    check_jobs(folder, "1")
    assert read_json(folder / "1" / "rank_1.json")["label"] == 1
    assert read_json(folder / "1" / "run.json")["command"].startswith("python train.py data.num_data=40")


def test_joblib(tmp_path: Path) -> None:
    """Two jobs at the same time, each in one process."""
    launcher = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "threads=1"]
    _, folder = two_jobs(tmp_path, "trainer=cpu", *launcher, "seed=0,1", rank=0)
    assert read_json(folder / "1" / "rank_0.json") == {"label": 1, "world_size": 1}
    assert read_json(folder / "1" / "run.json")["command"].startswith("python train.py data.num_data=40")


# Runs that lose something ---------------------------------------------------------------------------------------------


def test_wandb_may_disappear(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    folder = tmp_path / "run"
    own = ["trainer=cpu", "trainer.max_steps=60", "+callbacks.kill._target_=tests.probes.KillWandb"]
    command = Command(tmp_path, *TINY, *own, f"hydra.run.dir='{folder}'").wait()
    assert command.code == 0, command.err
    assert read_json(folder / "run.json")["state"] == "finished"
    assert "W&B is left out from here on" in command.err
    assert "test/nll" in read_json(folder / "summary.json")["metrics"]


def test_wandbs_temporary_folder_may_disappear(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    folder = tmp_path / "run"
    own = ["trainer=cpu", "trainer.max_steps=20", "+callbacks.lose._target_=tests.probes.LoseTemporaryFolder"]
    command = Command(tmp_path, *TINY, *own, f"hydra.run.dir='{folder}'").wait()
    assert command.code == 0, command.err
    assert read_json(folder / "run.json")["state"] == "finished"
    lines = command.err.splitlines()
    told = [line for line in lines if "W&B has to do without figures/" in line]
    assert told, command.err
    assert len(told) == len(set(told))
    assert "test/nll" in read_json(folder / "summary.json")["metrics"]
    assert list((folder / "figures").glob("*.json"))


# Sweeps of the config -------------------------------------------------------------------------------------------------


def test_a_grid_against_concrete(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    own = ["trainer=cpu", "logger=none", "sweep=grid_vs_concrete", "candidate=p05,concrete"]
    command = Command(tmp_path, "-m", *TINY, *own, f"hydra.sweep.dir='{folder}'").wait()
    assert command.code == 0, command.err
    study = read_json(folder / "study.json")
    assert [run["values"] for run in study["runs"]] == [
        {"dropout.kind": "fixed", "dropout.p": 0.05},
        {"dropout.kind": "concrete"},
    ]
    assert read_json(folder / "0" / "run.json")["command"].endswith("dropout=fixed dropout.p=0.05")
    assert "A grid of p against one Concrete run" in (folder / "report.html").read_text()
