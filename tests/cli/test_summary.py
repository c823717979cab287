"""What a run says on the terminal, from its folder."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from concrete_dropout.cli.summary import print_start, print_summary
from concrete_dropout.runfolder import CONVERGENCE, REPORT, RUN, SUMMARY, RunFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    files = RunFolder(tmp_path / "outputs" / "run [1]")
    layers = [{"name": "a", "kind": "concrete"}, {"name": "b", "kind": "fixed"}]
    files.write_json(
        RUN, {"layers": layers, "checkpoints": {"last": "checkpoints/last.ckpt"}, "loggers": {"wandb": None}}
    )
    return files


def printed(files: RunFolder) -> list[str]:
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_summary(files.path, console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_a_full_summary(folder: RunFolder) -> None:
    probabilities = {"a": {"initial": 0.1, "final": 0.00012}, "b": {"initial": None, "final": 0.2}}
    folder.write_json(SUMMARY, {"metrics": {"test/rmse": 1.23456, "val/rmse": 9.9}, "probabilities": probabilities})
    layers = {"a": {"converged": False, "change_last_fifth": -0.03, "saturated": "low"}, "b": {"converged": True}}
    folder.write_json(CONVERGENCE, {"layers": layers})
    folder.write_json(RUN, {**folder.read_json(RUN), "loggers": {"wandb": "wandb/offline-run-1"}})
    folder.write_text(REPORT, "")
    lines = [line.rstrip() for line in printed(folder)]
    assert " RMSE    1.235  of the predictive mean" in lines
    assert " a      concrete     0.1000  0.0001     -0.0300  still moving, nearly 0" in lines
    assert " b      fixed             -  0.2000           -" in lines
    assert lines[-4:] == [
        "run folder   outputs/run [1]",
        "checkpoint   outputs/run [1]/checkpoints/last.ckpt",
        "report       outputs/run [1]/report.html",
        "W&B          logged offline; upload with: wandb sync 'outputs/run [1]/wandb/offline-run-1'",
    ]


def test_of_a_deep_network_what_is_worth_a_row(folder: RunFolder) -> None:
    probabilities = {f"layer{i}": {"initial": 0.1, "final": 0.1 + i / 1000} for i in range(60)}
    folder.write_json(SUMMARY, {"metrics": {}, "probabilities": probabilities})
    folder.write_json(CONVERGENCE, {"layers": {"layer7": {"converged": False}, "layer9": {"converged": True}}})
    lines = [line.strip() for line in printed(folder)]
    typical = ["layer0", "layer1", "layer7", "layer30", "layer58", "layer59"]  # and one that is still moving
    assert [line.split()[0] for line in lines if line.startswith("layer")] == ["layer", *typical]
    assert next(line for line in lines if "more" in line).split() == "54 more 0.1020 to 0.1570 in the report".split()


def test_a_run_without_test_data_shows_validation(folder: RunFolder) -> None:
    folder.write_json(SUMMARY, {"metrics": {"val/rmse": 2.0}, "probabilities": {}})
    text = "\n".join(printed(folder))
    assert "Validation data" in text
    assert "Dropout probability" not in text


def test_classes_have_their_own_words_and_a_column_without_mc(folder: RunFolder) -> None:
    scores = {
        "miou": 0.6743,
        "accuracy": 0.912345,
        "ece": 0.0312,
        "calibration_rmse": 0.04,
        "mutual_information": 0.051,
    }
    metrics = {f"test/{name}": value for name, value in scores.items()}
    folder.write_json(SUMMARY, {"metrics": {**metrics, "test/accuracy_no_mc": 0.9}, "probabilities": {}})
    lines = [line.rstrip() for line in printed(folder)]
    assert " metric             value  no MC" in lines
    assert " mIoU              0.6743         intersection over union, mean over classes" in lines
    assert " accuracy          0.9123    0.9  share of right predictions" in lines
    assert " calibration RMSE    0.04         the same as a root mean square" in lines
    assert " epistemic          0.051         mutual information, nats" in lines


def test_a_run_without_anything_has_paths(folder: RunFolder) -> None:
    assert printed(folder)[-2].startswith("run folder")


def test_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    print_start(tmp_path / "run", {"experiment": "uci", "dropout": "none", "num_train": 7})
    assert capsys.readouterr().out == "uci: none dropout, N = 7, in run\n"
