"""A sweep through a real Slurm of two nodes, each job on both: make test-slurm."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import torch
from tests.test_sweeps import BROKEN, TINY
from tests.test_train import ROOT, Command, checkpoint_step, read_json

pytestmark = pytest.mark.skipif("TEST_SLURM" not in os.environ, reason="needs a Slurm: make test-slurm")
ON_TWO_NODES = [
    *TINY,
    "trainer=slurm",
    "trainer.accelerator=cpu",
    "logger=none",
    "hydra/launcher=submitit_slurm",
    "hydra.launcher.nodes=2",
    "hydra.launcher.tasks_per_node=1",
    "hydra.launcher.cpus_per_task=1",
    "hydra.launcher.setup=['export MASTER_ADDR=127.0.0.1 GLOO_SOCKET_IFNAME=lo']",
]


@pytest.fixture(autouse=True)
def _probes_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def check_folders(folder: Path) -> None:
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"0", "1", ".submitit"}
    assert (folder / "report.html").is_file()


def test_each_job_of_a_sweep_runs_on_two_nodes(tmp_path: Path) -> None:
    """The second job's process on the second node fails: its job ends, and the other does not."""
    folder = tmp_path / "sweep"
    command = Command(tmp_path, "-m", *ON_TWO_NODES, *BROKEN, "seed=0,1", f"hydra.sweep.dir='{folder}'").wait(900)
    assert command.code == 1, command.err
    ranks = [read_json(folder / "0" / f"rank_{rank}.json") for rank in (0, 1)]
    assert ranks == [{"label": 0, "world_size": 2}] * 2
    records = [read_json(folder / number / "run.json") for number in ("0", "1")]
    assert [(record["seed"], record["state"]) for record in records] == [(0, "finished"), (1, "failed")]
    assert records[0]["step"] == 6
    assert "1 of 2 jobs failed" in command.err
    assert "Traceback" not in command.err
    check_folders(folder)
    (tmp_path / "work" / "mended").touch()
    again = Command(
        tmp_path, "-m", *ON_TWO_NODES, *BROKEN, "seed=0,1", "resume=true", f"hydra.sweep.dir='{folder}'"
    ).wait(900)
    assert again.code == 0, again.err
    ranks = [read_json(folder / "1" / f"rank_{rank}.json") for rank in (0, 1)]
    assert ranks == [{"label": 1, "world_size": 2}] * 2


def test_a_job_that_slurm_takes_away_goes_on_when_it_comes_back(tmp_path: Path) -> None:
    """Two jobs of the same numbers; one is pre-empted and requeued in the middle of an epoch."""
    folder, steps = tmp_path / "sweep", 3000
    long = [f"trainer.max_steps={steps}", "data.min_steps_per_epoch=50", "callbacks.uncertainty.band_points=20,30"]
    command = Command(tmp_path, "-m", *ON_TWO_NODES, *long, f"hydra.sweep.dir='{folder}'")
    wait_until(lambda: checkpoint_step(folder / "0") >= 100, command)
    (job,) = [line.split()[0] for line in slurm("squeue", "--noheader", "--array", "--format=%i") if "_0" in line]
    slurm("scancel", "--signal=USR2", job)
    wait_until(lambda: "goes back to the queue" in (folder / "0" / "run.log").read_text(), command)
    reached = checkpoint_step(folder / "0")
    wait_until(lambda: "PENDING" in slurm("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%T"), command)
    slurm("scontrol", "update", f"jobid={job}", "starttime=now")  # instead of two minutes later
    command.wait(900)
    assert command.code == 0, command.err
    assert 100 <= reached < steps
    ours, expected = (
        torch.load(folder / number / "checkpoints" / "last.ckpt", weights_only=True) for number in ("0", "1")
    )
    assert ours["global_step"] == expected["global_step"] == steps
    torch.testing.assert_close(ours["state_dict"], expected["state_dict"], rtol=0, atol=0)
    log = (folder / "0" / "run.log").read_text()
    assert log.count("stopped by SIGUSR2") == log.count(" finished\n") == 1
    check_folders(folder)


def wait_until(condition: object, command: Command, seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert command.process.poll() is None, command.wait().err
        assert time.monotonic() < deadline
        time.sleep(0.05)


def slurm(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
