"""A sweep through a real Ray cluster on this machine: make test-ray."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.test_sweeps import BROKEN, TINY, check_two_jobs
from tests.test_train import ROOT, Command, read_json

pytestmark = pytest.mark.skipif("TEST_RAY" not in os.environ, reason="needs Ray: make test-ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """(a place for runs, address of a cluster of four CPUs on the loopback); only who has the token may use it."""
    place = tmp_path_factory.mktemp("ray")
    (place / "home").mkdir()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as session:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_worker_niceness", "0")  # which would be 15: on a machine with other work, for ever
        environment = {**os.environ, "HOME": str(place / "home")}
        ray, port = str(Path(sys.executable).parent / "ray"), free_port()
        subprocess.run([ray, "get-auth-token", "--generate"], env=environment, capture_output=True, check=True)
        start = [
            ray, "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=4",
            "--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={session}",
        ]  # fmt: skip
        with (place / "ray.log").open("w") as log:
            head = subprocess.Popen(start, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(place / "ray.log", "Ray runtime started", head)
            yield place, f"127.0.0.1:{port}"
        finally:
            head.terminate()  # and its own with it; `ray stop` would end every Ray of this user
            head.wait(60)


def wait_for(log: Path, words: str, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while words not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def free_port() -> int:
    """Below those that Ray gives to its workers."""
    for port in range(6390, 6490):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError("no free port")


def test_jobs_run_on_the_cluster(cluster: tuple[Path, str]) -> None:
    """Two jobs of two processes each; one process of the second fails, and is mended."""
    place, address = cluster
    folder = place / "sweep"
    arguments = [
        "-m", *TINY, *BROKEN, "trainer=ddp_cpu", "logger=none", "seed=0,1", "hydra/launcher=ray",
        f"hydra.launcher.ray.init.address={address}", "hydra.launcher.ray.remote.num_cpus=2",
        "hydra.sweep.dir=../sweep",
    ]  # fmt: skip
    command = Command(place, *arguments).wait(600)
    assert command.code == 1, command.err
    assert [read_json(folder / number / "job.json")["state"] for number in "01"] == ["finished", "failed"]
    assert "1 of 2 jobs failed:\n  seed=1: RunFailedError: rank 1 failed" in command.err
    assert "Traceback" not in command.err
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"0", "1"}
    (place / "work" / "mended").touch()
    again = Command(place, *arguments, "resume=true").wait(600)
    check_two_jobs(again, folder)
    for seed in (0, 1):
        assert [read_json(folder / str(seed) / f"rank_{rank}.json")["label"] for rank in (0, 1)] == [seed, seed]
        assert read_json(folder / str(seed) / "run.json")["command"].startswith("python train.py data.num_data=40")


def test_ray_starts_with_a_sweep_that_finds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_worker_niceness", "0")
    folder = tmp_path / "sweep"
    arguments = [*TINY, "trainer=cpu", "logger=none", "seed=0,1", "hydra/launcher=ray", f"hydra.sweep.dir='{folder}'"]
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as session:  # names of sockets may not be long
        command = Command(tmp_path, "-m", *arguments, f"+hydra.launcher.ray.init._temp_dir={session}").wait(600)
    assert command.code == 0, command.err
    assert [read_json(folder / number / "run.json")["state"] for number in "01"] == ["finished"] * 2
    assert (folder / "report.html").is_file()
