"""Reports of sweeps from files alone: closed ones, and ones that were killed before they could say how they ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.report.comparison_runs import write_comparison
from tests.report.runs import write_killed_run, write_run

from concrete_dropout.dashboard.sweeps import rebuild_report, sweep_record
from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import HEARTBEAT, JOB, STUDY, SWEEP


def write_sweep(folder: Path) -> Path:
    """Three jobs: one is done, one was killed, one was refused. Nobody has closed the sweep."""
    folder.mkdir()
    (folder / SWEEP).write_text(json.dumps({"arguments": ["dropout.init_p=0.1,0.2,9"], "started": "2026-01-01"}))
    write_run(folder / "0")
    write_killed_run(folder / "1")
    (folder / "1" / HEARTBEAT).write_text(json.dumps({"machine": "elsewhere", "pid": 1, "every": 10}))
    os.utime(folder / "1" / HEARTBEAT, (0, 0))
    (folder / "2").mkdir()
    for number, (start, state, error) in enumerate(
        [("0.1", "finished", None), ("0.2", "running", None), ("9", "failed", "too big")]
    ):
        job = {
            "num": number,
            "overrides": ["experiment=synthetic", f"dropout.init_p={start}"],
            "state": state,
            "error": error,
        }
        (folder / str(number) / JOB).write_text(json.dumps(job))
    return folder


def test_a_killed_sweep_gets_its_report(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep")
    report = rebuild_report(folder)
    study = json.loads((folder / STUDY).read_text())
    assert [run["label"] for run in study["runs"]] == ["dropout.init_p=0.1", "dropout.init_p=0.2", "dropout.init_p=9"]
    assert [run["state"] for run in study["runs"]] == ["finished", "failed", "failed"]
    assert "its process is gone" in study["runs"][1]["error"]
    assert study["state"] == "failed"
    text = report.read_text()
    assert "too big" in text
    assert "initial p" in text.lower()
    assert rebuild_report(folder) == report  # again, from its own record


def test_what_a_sweep_said_itself_is_kept(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep")
    runs = [{"folder": "0", "label": "p = 0.1", "values": {"dropout.init_p": 0.1}, "state": "running"}]
    (folder / STUDY).write_text(json.dumps({"kind": "comparison", "command": "python train.py -m ...", "runs": runs}))
    record = sweep_record(folder)
    assert record["command"] == "python train.py -m ..."
    assert [run["label"] for run in record["runs"]] == ["p = 0.1", "dropout.init_p=0.2", "dropout.init_p=9"]
    assert record["runs"][0]["state"] == "finished"


def test_a_study_is_left_as_it_is(tmp_path: Path) -> None:
    folder = write_comparison(tmp_path / "study", {"seed": [0, 1]})
    before = (folder / STUDY).read_bytes()
    assert rebuild_report(folder).is_file()
    assert (folder / STUDY).read_bytes() == before


def test_mistakes_have_a_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder"):
        rebuild_report(tmp_path / "nothing")
    with pytest.raises(UserError, match="holds no sweep or study"):
        rebuild_report(write_run(tmp_path / "run"))
