"""The command line: sorted, continued, and left without a trace when it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from concrete_dropout.cli.entry import Refusals, continued, from_the_start, split
from concrete_dropout.cli.leftovers import discard
from concrete_dropout.cli.paths import shortest
from concrete_dropout.errors import UserError


def test_options_may_stand_between_overrides() -> None:
    given = split(["experiment=uci", "--multirun", "seed=1,2"])
    assert (given.options, given.overrides) == (["--multirun"], ["experiment=uci", "seed=1,2"])
    assert given.multirun
    assert given.starts_jobs
    asked = split(["--cfg", "job", "seed=1"])
    assert (asked.options, asked.overrides, asked.starts_jobs) == (["--cfg", "job"], ["seed=1"], False)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UserError, match="--foo is no option"):
        split(["--foo", "seed=1"])


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A checkpoint of a job of a sweep."""
    folder = tmp_path / "it's a run"
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("- dropout=fixed\n- trainer.max_steps=5\n- sweep=init_p\n")
    return folder / "checkpoints" / "last.ckpt"


def test_a_checkpoint_continues_its_run(stopped: Path) -> None:
    path = f"ckpt_path={stopped}"
    folder = str(stopped.parent.parent).replace("'", "\\'")
    arguments = continued([path, "trainer.max_steps=10"])
    assert arguments == [
        "dropout=fixed",
        path,
        "trainer.max_steps=10",
        f"hydra.run.dir='{folder}'",
        "hydra.output_subdir=null",
    ]
    assert from_the_start(arguments) == ["dropout=fixed", "trainer.max_steps=10"]


@pytest.mark.parametrize("own", ["hydra.run.dir=elsewhere", "train=false"])
def test_a_checkpoint_may_start_a_run_of_its_own(stopped: Path, own: str) -> None:
    path = f"ckpt_path={stopped}"
    assert continued([path, own]) == ["dropout=fixed", "trainer.max_steps=5", path, own]


@pytest.mark.parametrize("arguments", [[], ["ckpt_path=null"], ["ckpt_path=nowhere.ckpt", "seed=1"]])
def test_other_commands_stay_as_they_are(arguments: list[str]) -> None:
    assert continued(arguments) == arguments
    assert from_the_start(arguments) == arguments


def refused(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs" / "synthetic" / "now"
    (folder / ".hydra").mkdir(parents=True)
    for name in ("config.yaml", "run.log", ".hydra/config.yaml"):
        (folder / name).touch()
    return folder


def test_a_refused_run_leaves_nothing(tmp_path: Path) -> None:
    folder = refused(tmp_path)
    discard(folder, tmp_path / "outputs")
    assert list(tmp_path.iterdir()) == []


def test_what_others_left_stays(tmp_path: Path) -> None:
    folder = refused(tmp_path)
    (folder / "notes.txt").touch()
    discard(folder, tmp_path / "outputs")
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_run_that_has_started_stays(tmp_path: Path) -> None:
    folder = refused(tmp_path)
    (folder / "run.json").touch()
    discard(folder, tmp_path / "outputs")
    assert (folder / ".hydra" / "config.yaml").is_file()


def job(folder: Path, mode: RunMode, error: Exception | None) -> tuple[DictConfig, JobReturn]:
    hydra = {"runtime": {"output_dir": str(folder)}, "mode": mode, "job": {"num": 3}}
    config = OmegaConf.create({"hydra": hydra, "paths": {"output_dir": str(folder.parents[1])}})
    result = JobReturn(status=JobStatus.COMPLETED if error is None else JobStatus.FAILED)
    result.return_value = error
    return config, result


def test_a_mistake_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        Refusals().on_job_end(*job(refused(tmp_path), RunMode.RUN, UserError("no such file")))
    assert end.value.code == 2
    assert capsys.readouterr().err == "\nError: no such file\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"state": "failed", "error": "the loss is nan"}, 1),  # the run had begun, and has failed
        ({"state": "finished", "error": None}, 2),  # an earlier run, which was not to go on like this
        ({"state": "failed", "error": "no space"}, 2),
    ],
)
def test_a_run_that_fails_is_no_refusal(tmp_path: Path, record: dict[str, str | None], code: int) -> None:
    folder = refused(tmp_path)
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit) as end:
        Refusals().on_job_end(*job(folder, RunMode.RUN, UserError("the loss is nan")))
    assert end.value.code == code


def test_a_sweep_goes_on_after_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Refusals().on_job_end(*job(refused(tmp_path), RunMode.MULTIRUN, UserError("no such file")))
    assert capsys.readouterr().err == "\nJob 3 failed: no such file\n"


@pytest.mark.parametrize("error", [None, RuntimeError("a bug")])
def test_success_and_bugs_are_left_to_hydra(tmp_path: Path, error: Exception | None) -> None:
    folder = refused(tmp_path)
    Refusals().on_job_end(*job(folder, RunMode.RUN, error))
    assert (folder / "run.log").is_file()


def test_paths_do_not_climb_further_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shortest(tmp_path / "outputs" / "run") == "outputs/run"
    assert shortest("outputs/run") == "outputs/run"
    assert shortest("/x") == "/x"
