from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.runs import SCALARS, truncate, write_killed_run, write_run

from concrete_dropout import runfolder
from concrete_dropout.errors import UserError
from concrete_dropout.report.record import read_record
from concrete_dropout.runfolder import RunFolder


def test_a_complete_run_has_no_problems(run_dir: Path) -> None:
    record = read_record(run_dir)
    assert record.problems == []
    assert record.state == "finished"
    assert record.stage == "test"
    assert record.step == 600
    assert record.num_points("test") == 1000
    assert {name: record.metric("test", name) for name in SCALARS} == SCALARS


def test_metrics_come_from_whichever_file_has_them(run_dir: Path) -> None:
    (run_dir / runfolder.SUMMARY).unlink()
    assert read_record(run_dir).metric("test", "rmse") == SCALARS["rmse"]
    (run_dir / runfolder.METRICS).unlink()
    record = read_record(run_dir)
    assert record.metric("test", "nll") == SCALARS["nll"]
    assert record.metric("test", "calibration_rmse") == SCALARS["calibration_rmse"]
    assert record.metric("test", "epistemic_std") == SCALARS["epistemic_std"]
    # The "rmse" of calibration.json is another one.
    assert record.metric("test", "rmse") is None


def test_without_test_data_the_validation_counts(tmp_path: Path) -> None:
    assert read_record(write_run(tmp_path / "run", test=False)).stage == "val"


def test_a_killed_run_has_what_it_had(tmp_path: Path) -> None:
    record = read_record(write_killed_run(tmp_path / "run"))
    assert record.problems == []
    assert record.step == 200
    assert record.dropout["network.layers.0"][0][-1] == 200
    assert "tra" not in record.metrics


def test_truncated_files_are_named(run_dir: Path) -> None:
    truncate(run_dir)
    record = read_record(run_dir)
    text = " ".join(record.problems)
    for name in (runfolder.RUN, runfolder.CALIBRATION, runfolder.BAND, runfolder.SUMMARY):
        assert name in text
    assert record.metrics
    assert record.dropout


def test_a_file_of_another_shape_is_left_out(run_dir: Path) -> None:
    RunFolder(run_dir).write_json(runfolder.CALIBRATION, [1, 2])
    record = read_record(run_dir)
    assert record.calibration == {}
    assert record.problems == ["calibration.json holds no JSON object; it was left out."]


def test_a_resumed_run_repeats_steps_and_the_later_row_counts(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    rows = [(0, "a", 0.1), (10, "a", 0.2), (20, "a", 0.9), (10, "a", 0.3), (15, "a", 0.4)]
    folder.append_rows(runfolder.DROPOUT, runfolder.DROPOUT_HEADER, rows)
    assert read_record(tmp_path).dropout == {"a": ([0, 10, 15, 20], [0.1, 0.3, 0.4, 0.9])}


def test_folders_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder"):
        read_record(tmp_path / "absent")
    with pytest.raises(UserError, match=r"holds no run .*run\.json"):
        read_record(tmp_path)
    write_run(tmp_path / "inside")
    with pytest.raises(UserError, match=r"Runs inside of it: .*inside"):
        read_record(tmp_path)
