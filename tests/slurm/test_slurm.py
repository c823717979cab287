"""A sweep through a real Slurm of two nodes, each job on both: make test-slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.test_sweeps import BROKEN, TINY
from tests.test_train import ROOT, Command, read_json

pytestmark = pytest.mark.skipif("TEST_SLURM" not in os.environ, reason="needs a Slurm: make test-slurm")


def test_each_job_of_a_sweep_runs_on_two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    folder = tmp_path / "sweep"
    command = Command(
        tmp_path,
        "-m",
        *TINY,
        *BROKEN[-3:],
        "trainer=slurm",
        "trainer.accelerator=cpu",
        "logger=none",
        "seed=0,1",
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.nodes=2",
        "hydra.launcher.tasks_per_node=1",
        "hydra.launcher.cpus_per_task=1",
        "hydra.launcher.setup=['export MASTER_ADDR=127.0.0.1 GLOO_SOCKET_IFNAME=lo']",
        f"hydra.sweep.dir='{folder}'",
    ).wait(900)
    assert command.code == 0, command.err
    for seed in (0, 1):
        record = read_json(folder / str(seed) / "run.json")
        assert (record["state"], record["seed"], record["step"]) == ("finished", seed, 6)
        ranks = [read_json(folder / str(seed) / f"rank_{rank}.json") for rank in (0, 1)]
        assert ranks == [{"label": seed, "world_size": 2}] * 2
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"0", "1", ".submitit"}
    assert (folder / "report.html").is_file()
