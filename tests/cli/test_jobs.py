"""The records of a sweep's jobs: which sweep a command takes up again, and what a damaged record does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from concrete_dropout.cli.entry import continued, resumed, split
from concrete_dropout.cli.jobs import newest_sweep, own_arguments, read_jobs, texts
from concrete_dropout.cli.places import last_checkpoint, sweeps_of
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import RunFolder

CONF = Path(__file__).parents[2] / "conf"


def sweep(place: Path, name: str, *arguments: str, age: float = 0.0) -> Path:
    RunFolder(place / name).write_json("sweep.json", {"arguments": own_arguments(arguments)})
    made = (place / name / "sweep.json").stat().st_mtime - age
    os.utime(place / name / "sweep.json", (made, made))
    return place / name


def test_the_newest_sweep_of_the_same_command(tmp_path: Path) -> None:
    sweep(tmp_path, "old", "seed=0,1", "dropout=none", age=10)
    expected = sweep(tmp_path, "new", "dropout=none", "seed=0,1", age=5)
    sweep(tmp_path, "other", "seed=0,1,2", "dropout=none")
    assert newest_sweep(tmp_path, ["seed=0,1", "resume=true", "dropout=none"]) == expected
    with pytest.raises(UserError, match="there is no sweep of this command"):
        newest_sweep(tmp_path, ["seed=5", "resume=true"])


def test_resume_finds_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path))
    command = ["-m", "experiment=digits", "seed=0,1"]
    assert sweeps_of(command[1:], CONF) == tmp_path / "digits"
    folder = sweep(tmp_path / "digits", "sweep_x", *command[1:])
    given = resumed(split([*command, "resume=true"]), CONF)
    assert given.overrides[-1] == f"hydra.sweep.dir={folder}"
    assert resumed(split(command), CONF) == split(command)
    with pytest.raises(UserError, match="resume=true is for sweeps"):
        resumed(split(["seed=1", "resume=true"]), CONF)


def test_overrides_as_they_were_typed() -> None:
    assert texts(OmegaConf.create(["a=$\\{seed\\}", "b=1"])) == ["a=${seed}", "b=1"]
    assert own_arguments(["hydra.mode=MULTIRUN", "b=1", "resume=true", "a=2"]) == ["a=2", "b=1"]


def test_records_in_the_order_of_jobs_without_damaged_ones(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        RunFolder(tmp_path / str(number)).write_json("job.json", {"num": number})
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "job.json").write_text('{"num": 3')
    assert [job["folder"] for job in read_jobs(tmp_path)] == ["0", "2", "10"]


def test_last_is_the_newest_checkpoint_of_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path))
    for age, name in ((0, "synthetic/new"), (9, "synthetic/old"), (-9, "digits/newer")):
        path = tmp_path / name / "checkpoints" / "last.ckpt"
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    assert last_checkpoint(["ckpt_path=last"]).parts[-4:-2] == ("synthetic", "new")
    assert last_checkpoint(["ckpt_path=last", "experiment=digits"]).parts[-4:-2] == ("digits", "newer")
    named = last_checkpoint(["ckpt_path=last", f"hydra.run.dir='{tmp_path}/synthetic/old'"])
    assert named.parts[-4:-2] == ("synthetic", "old")
    assert continued(["ckpt_path=last", "seed=3"])[-1] == f"ckpt_path={tmp_path}/synthetic/new/checkpoints/last.ckpt"
    with pytest.raises(UserError, match="ckpt_path=last: there is no checkpoint"):
        last_checkpoint(["ckpt_path=last", "experiment=mnist"])
