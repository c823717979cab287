"""The end of a sweep from its files alone: failed jobs, jobs that never began, and what its study.json says."""

from __future__ import annotations

import socket
import subprocess
import threading
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest

from concrete_dropout.cli import survivors
from concrete_dropout.cli.jobs import JobRecords
from concrete_dropout.cli.stopped import how_to_continue
from concrete_dropout.cli.sweep_end import close_sweep, run_sweep
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import STUDY, RunFolder


def job(folder: Path, number: int, *overrides: str, **entries: Any) -> None:
    record = {"num": number, "overrides": list(overrides), "state": "finished", "error": None, **entries}
    RunFolder(folder / str(number)).write_json("job.json", record)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    RunFolder(tmp_path).write_json("sweep.json", {"arguments": ["seed=0,1", "dropout=none"], "swept": ["seed"]})
    job(tmp_path, 0, "dropout=none", "seed=0", state="failed", error="no such file")
    job(tmp_path, 1, "dropout=none", "seed=1", state="failed", error="ValueError: broken")
    return tmp_path


def test_a_sweep_of_which_nothing_came_has_a_report_too(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = close_sweep(sweep)
    assert [(entry["label"], entry["error"]) for entry in failed] == [
        ("seed=0", "no such file"),
        ("seed=1", "ValueError: broken"),
    ]
    study = RunFolder(sweep).read_json(STUDY)
    assert (study["state"], study["kind"]) == ("failed", "comparison")
    assert [run["values"] for run in study["runs"]] == [{"seed": 0}, {"seed": 1}]
    page = (sweep / "report.html").read_text()
    assert "no such file" in page
    assert "ValueError: broken" in page
    assert "report.html" in capsys.readouterr().out


def test_the_error_of_a_job_is_told_once_and_any_other_is_raised(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(error: Exception) -> Any:
        def hydra_main() -> None:
            JobRecords.sweep = sweep
            raise error

        return hydra_main

    assert run_sweep(fails(ValueError("broken"))) == 1
    said = capsys.readouterr().err
    assert "2 of 2 jobs failed:\n  seed=0: no such file\n  seed=1: ValueError: broken\n" in said
    assert "resume=true" in said
    with pytest.raises(KeyError, match="a bug of the launcher"):
        run_sweep(fails(KeyError("a bug of the launcher")))


def test_a_process_that_was_killed_before_its_job_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As joblib's workers are while they still import: there is no record of a job."""

    def hydra_main() -> None:
        RunFolder(tmp_path).write_json("sweep.json", {"arguments": ["seed=0,1"], "swept": ["seed"]})
        JobRecords.sweep = tmp_path
        raise BrokenExecutor("A worker process was unexpectedly terminated")

    assert run_sweep(hydra_main) == 1
    said = capsys.readouterr().err
    assert "a process was gone before its job had begun: BrokenExecutor: A worker process was" in said
    assert "resume=true" in said


def test_a_command_that_never_began_has_no_report(tmp_path: Path) -> None:
    def refused() -> None:
        raise UserError("no")

    with pytest.raises(UserError):
        run_sweep(refused)
    assert JobRecords.sweep is None


def test_a_stopped_sweep_says_how_it_goes_on(sweep: Path) -> None:
    assert how_to_continue(sweep / "1") == "Go on with the sweep by the same command and resume=true"


def test_a_job_whose_process_was_killed_is_told_and_the_others_are_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second job ends by itself while the launcher has given up because of the first."""
    monkeypatch.setattr(survivors, "PAUSE", 0.3)
    monkeypatch.setattr(survivors, "EVERY", 0.05)
    RunFolder(tmp_path).write_json("sweep.json", {"arguments": ["seed=0,1,2"], "swept": ["seed"]})
    host = socket.gethostname()
    other = subprocess.Popen(["sleep", "0.5"])
    dead = subprocess.Popen(["true"])
    dead.wait()
    job(tmp_path, 0, "seed=0", state="running", host=host, pid=dead.pid)
    job(tmp_path, 1, "seed=1", state="running", host=host, pid=other.pid)
    job(tmp_path, 2, "seed=2", state="running", host="elsewhere", pid=1)

    def hydra_main() -> None:
        JobRecords.sweep = tmp_path
        raise ConnectionError("worker 3 died\nlong story")

    def end() -> None:
        other.wait()
        RunFolder(tmp_path / "1").update_json("job.json", state="finished")

    ending = threading.Thread(target=end)
    ending.start()
    assert run_sweep(hydra_main) == 1
    ending.join()
    said = capsys.readouterr().err
    assert "2 of 3 jobs failed" in said
    assert "  seed=0: its process is gone; the launcher said: ConnectionError: worker 3 died\n" in said
    assert "  seed=2: it is still under way on another machine; the launcher said: " in said
    runs = RunFolder(tmp_path).read_json(STUDY)["runs"]
    assert [run["state"] for run in runs] == ["failed", "finished", "running"]
