"""A disk that is full: one message with the place and the way out, nothing that looks finished, and it can go on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.hardening import bad_files as bad
from tests.hardening import bad_pictures as odd
from tests.hardening.cases import SCENES, SMALL
from tests.hardening.commands import Result, WarmCommands
from tests.hardening.small_disk import BALLAST, NotAllowedError, empty, fill, small_disk
from tests.hardening.tiers import some, thorough
from tests.hardening.trained import NETWORK, TINY, Runs

LONG = [*SMALL, "model.hidden=[64]", "data.min_steps_per_epoch=2", "trainer.log_every_n_steps=1", "test=false"]
FILL = """
import os, pathlib
import pytorch_lightning as pl

class Fill(pl.Callback):
    '''At a step, the disk becomes full: but for a few bytes, so that small files still fit.'''
    def __init__(self, step, leave):
        self.step, self.leave = step, leave

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.step and not pathlib.Path("was full").exists():
            pathlib.Path("was full").touch()
            from tests.hardening.small_disk import fill
            fill(pathlib.Path("disk"), self.leave)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk", megabytes=16) as place:
            yield place
    except NotAllowedError as error:
        pytest.skip(f"no disk can be mounted here ({error}): see the tests with limited files")


def told(result: Result, *names: str) -> str:
    """The message of a command that failed as it should."""
    shown = f"exit code {result.code}\n{result.out[-2000:]}\n{result.err[-4000:]}"
    assert result.code in (1, 2), shown
    assert "Traceback" not in result.out + result.err, shown
    assert result.message, shown
    for name in names:
        assert name in result.message, f"{name!r} is not named: {shown}"
    return result.message


def states(folder: Path) -> set[str]:
    return {json.loads(path.read_text())["state"] for path in folder.rglob("run.json")}


@pytest.mark.parametrize("leave", some([0, 60_000], every=2))  # not a byte, or room for small files
def test_during_training(leave: int, commands: WarmCommands, disk: Path, tmp_path: Path) -> None:
    """Checkpoints from before are unharmed, and the printed command goes on once there is room."""
    (tmp_path / "filling.py").write_text(FILL)
    filling = [f"+callbacks.fill={{_target_:filling.Fill,step:5,leave:{leave}}}"]
    arguments = [*LONG, *filling, "trainer.max_steps=12", "hydra.run.dir=disk/run"]
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    result = commands.run("train.py", arguments, tmp_path, PYTHONPATH=path)
    message = told(result, "disk/run", "no space left" if leave == 0 else "pace left")
    assert "room" in message or "space" in message
    run = disk / "run"
    assert states(run) <= {"running", "failed"}
    report = run / "report.html"
    assert not report.is_file() or "failed" in report.read_text()
    assert not [*run.rglob("*.tmp")], "half-written files are left"
    torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)  # is whole
    empty(disk)
    found = re.search(r"^  (python train\.py .*)$", result.err, re.MULTILINE)
    assert found, result.err
    again = commands.run("train.py", shlex.split(found.group(1))[2:], tmp_path, PYTHONPATH=path)
    assert again.code == 0, again.out + again.err
    assert states(run) == {"finished"}
    steps = [int(line.split(",")[0]) for line in (run / "metrics.csv").read_text().splitlines()[1:]]
    assert steps == sorted(steps)
    assert steps[-1] == 12


@thorough
def test_before_training(commands: WarmCommands, disk: Path, tmp_path: Path) -> None:
    fill(disk, leave=0)
    told(commands.run("train.py", [*SMALL, "hydra.run.dir=disk/run"], tmp_path), "disk")
    assert not [*disk.rglob("report.html"), *disk.rglob("summary.json")]


@thorough
def test_a_cache_of_pictures(commands: WarmCommands, disk: Path, tmp_path: Path) -> None:
    train = bad.scenes(tmp_path) / "train"
    for number in range(8):
        odd.noise(train / "images" / f"more {number}.png", (512, 512))
        odd.plain_mask(train / "masks" / f"more {number}.png", (512, 512))
    settings = [a for a in SCENES if not a.startswith("data.cache_dir=")]
    fill(disk, leave=1 << 20)
    arguments = [*settings, *TINY, *NETWORK, "data.cache_dir=disk/cache", "hydra.run.dir=run"]
    told(commands.run("train.py", arguments, tmp_path), "disk/cache", "data.cache_dir")
    assert not [*disk.rglob("pixels.bin")], "half a cache is left"
    assert not (tmp_path / "run").exists()
    empty(disk)


@pytest.mark.parametrize("leave", some([3000, 0], every=2))
def test_an_evaluation(leave: int, commands: WarmCommands, runs: Runs, disk: Path, tmp_path: Path) -> None:
    run, data = runs.copy("csv", tmp_path / "run"), f"data.path={runs.place / 'csv' / 'my table.csv'}"
    arguments = [f"ckpt={run}", data, "mc_samples=0,2", "out=disk/scores"]
    fill(disk, leave)
    told(commands.run("evaluate.py", arguments, tmp_path), "disk/scores", "kept")
    results = disk / "scores" / "results.json"
    assert not results.is_file() or json.loads(results.read_text())["state"] != "finished"
    page = disk / "scores" / "evaluation.html"
    assert not page.is_file() or "finished" not in page.read_text()
    empty(disk)
    again = commands.run("evaluate.py", arguments, tmp_path)
    assert again.code == 0, again.out + again.err
    assert json.loads(results.read_text())["state"] == "finished"


@thorough
def test_predictions(commands: WarmCommands, runs: Runs, disk: Path, tmp_path: Path) -> None:
    run = runs.copy("scenes", tmp_path / "run")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        odd.noise(tmp_path / "photos" / f"{number}.png", (96, 128))
    arguments = [f"ckpt={run}", "input=photos", "output=disk/maps"]
    fill(disk, leave=300_000)
    told(commands.run("predict.py", arguments, tmp_path), "disk/maps", "kept")
    assert not (disk / "maps" / "predictions.csv").exists()
    assert not [*disk.rglob("*.tmp")]
    empty(disk)
    again = commands.run("predict.py", arguments, tmp_path)
    assert again.code == 0, again.out + again.err
    assert (disk / "maps" / "predictions.csv").is_file()


@thorough
def test_a_report_and_the_page_of_all_runs(commands: WarmCommands, runs: Runs, disk: Path, tmp_path: Path) -> None:
    run = runs.copy("toy", disk / "run")
    before = (run / "report.html").read_bytes()
    fill(disk, leave=0)
    told(commands.run("concrete_dropout.report", ["disk/run"], tmp_path), "report.html")
    assert (run / "report.html").read_bytes() == before
    told(commands.run("dashboard.py", ["disk"], tmp_path), "disk")
    assert not (disk / "dashboard" / "index.html").is_file()
    empty(disk)
    assert commands.run("dashboard.py", ["disk"], tmp_path).code == 0


@pytest.mark.parametrize("limit", some([2_000, 20_000], every=2))
def test_files_that_may_not_become_large(limit: int, commands: WarmCommands, tmp_path: Path) -> None:
    """The same by another limit of the system, for which one need not be root; at different places on the way."""
    arguments = [*LONG, "trainer.max_steps=6", "hydra.run.dir=run"]
    result = commands.run("train.py", arguments, tmp_path, limits={"FSIZE": limit})
    told(result, "run", "large")
    assert states(tmp_path) <= {"running", "failed"}
    assert not [*tmp_path.rglob("*.tmp")]
    again = commands.run("train.py", [*arguments[:-1], "hydra.run.dir=other"], tmp_path)
    assert again.code == 0, again.out + again.err


def test_a_small_disk_is_small(disk: Path) -> None:
    fill(disk, leave=0)
    with pytest.raises(OSError, match="No space left"):
        (disk / "more").write_bytes(bytes(10_000))
    assert (disk / BALLAST).stat().st_size > 15 << 20
