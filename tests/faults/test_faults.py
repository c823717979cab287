"""A few faults at chosen moments; make test-faults draws many at random ones."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.invariants import broken_files, held_locks, unfinished_files
from tests.faults.processes import WarmCommand, WarmServer
from tests.faults.scenarios import SMALL, SYNTHETIC, TINY_AGENT, TRAIN, with_base_and_tables, with_table
from tests.test_train import read_json

LONG = [*SMALL, "logger=none", "trainer.max_steps=1000000", "hydra.run.dir=run"]


@pytest.fixture(scope="module")
def server() -> Iterator[WarmServer]:
    with WarmServer() as warm:
        yield warm


def begun(command: WarmCommand, pattern: str) -> None:
    """Wait for a file of the command."""
    found = command.wait_until(lambda: any((command.place / "work").glob(pattern)))
    assert found, command.text("err")


def check_end(command: WarmCommand, number: signal.Signals) -> str:
    """The command says that it was stopped and how it goes on; returns its error output."""
    ended = command.wait(60)
    assert ended.code == 128 + number, ended.err
    assert "Traceback" not in ended.err
    assert "Stopped" in ended.err
    assert command.left_behind(5) == []
    assert broken_files(command.place / "work") == held_locks(command.place) == []
    return ended.err


def test_a_second_run_in_the_same_folder_is_refused(server: WarmServer, tmp_path: Path) -> None:
    first = WarmCommand(server, tmp_path, TRAIN, [*SYNTHETIC, *LONG])
    begun(first, "run/checkpoints/last.ckpt")
    before = (tmp_path / "work/run/.hydra/overrides.yaml").read_text()
    second = WarmCommand(server, tmp_path, TRAIN, [*SYNTHETIC, *LONG, "seed=7"]).wait(60)
    assert second.code == 2
    assert second.err.count("Error: ") == 1
    assert f"run is in use by process {first.pid} on " in second.err
    assert "hydra.run.dir=" in second.err
    assert (tmp_path / "work/run/.hydra/overrides.yaml").read_text() == before
    assert first.is_running()
    again = WarmCommand(server, tmp_path, TRAIN, ["ckpt_path=run/checkpoints/last.ckpt"]).wait(60)
    assert (again.code, "in use by process" in again.err) == (2, True)
    first.kill_all()
    # A kill frees the folder, and what it left half-written is gone when the run has ended.
    (tmp_path / "work/run/checkpoints/.last.ckpt.abc.tmp").write_bytes(b"half")
    step = read_json(tmp_path / "work/run/run.json")["step"]
    resumed = WarmCommand(
        server, tmp_path, TRAIN, ["ckpt_path=run/checkpoints/last.ckpt", f"trainer.max_steps={step + 200}"]
    ).wait(100)
    assert resumed.code == 0, resumed.err
    assert unfinished_files(tmp_path / "work") == broken_files(tmp_path / "work") == []


def test_an_agent_is_stopped_outside_of_its_trainer_as_well(server: WarmServer, tmp_path: Path) -> None:
    """Most of its time goes into the search of policies, where no trainer listens to signals."""
    long = [entry for entry in TINY_AGENT if not entry.startswith("agent.search.iterations")]
    command = WarmCommand(server, tmp_path, TRAIN, [*long, "agent.search.iterations=100000", "hydra.run.dir=run"])
    begun(command, "run/checkpoints/last.ckpt")
    time.sleep(2)
    command.send(signal.SIGTERM)
    assert "python train.py ckpt_path=run/checkpoints/last.ckpt" in check_end(command, signal.SIGTERM)
    record = read_json(tmp_path / "work/run/run.json")
    assert (record["state"], record["episode"]) == ("interrupted", 0)
    assert (tmp_path / "work/run/report.html").is_file()
    again = WarmCommand(
        server,
        tmp_path,
        TRAIN,
        ["ckpt_path=run/checkpoints/last.ckpt", "agent.search.iterations=4", "agent.episodes=1"],
    ).wait(100)
    assert again.code == 0, again.err
    assert read_json(tmp_path / "work/run/run.json")["state"] == "finished"


def test_a_command_that_is_stopped_before_its_run_leaves_nothing(server: WarmServer, tmp_path: Path) -> None:
    """Here a named pipe keeps it waiting for its data."""
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "my.csv")
    command = WarmCommand(server, tmp_path, TRAIN, ["experiment=csv", "data.path=my.csv", "data.target=y", *SMALL])
    begun(command, "outputs/csv/*/.lock")
    time.sleep(1)
    command.send(signal.SIGTERM)
    assert "Nothing had begun: start again" in check_end(command, signal.SIGTERM)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["my.csv"]


@pytest.fixture(scope="module")
def base(server: WarmServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("base")
    (place / "work").mkdir()
    with_table(place / "work", place)
    own = ["experiment=csv", "data.path=my.csv", "data.target=y", *SMALL, "logger=none", "hydra.run.dir=run"]
    ended = WarmCommand(server, place, TRAIN, own).wait(100)
    assert ended.code == 0, ended.err
    return place / "work" / "run"


@pytest.mark.parametrize(
    ("script", "arguments", "key", "file"),
    [
        ("predict.py", ["input=inbox", "mc_samples=4000"], "output", "finished.jsonl"),
        ("evaluate.py", ["mc_samples=20000", "repeats=50"], "out", "results.json"),
    ],
)
def test_results_are_one_process_s_and_go_on(
    server: WarmServer, base: Path, tmp_path: Path, script: str, arguments: list[str], key: str, file: str
) -> None:
    (tmp_path / "work").mkdir()
    with_base_and_tables(tmp_path / "work", base)
    given = ["ckpt=base", *arguments, f"{key}=results"]
    first = WarmCommand(server, tmp_path, script, given)
    begun(first, f"results/{file}")
    second = WarmCommand(server, tmp_path, script, given).wait(60)
    assert second.code == 2, second.err
    assert f"results is in use by process {first.pid} on " in second.err
    first.send(signal.SIGTERM)
    assert f"{key}=results" in check_end(first, signal.SIGTERM)
    finished: Any = (tmp_path / "work" / "results" / file).read_text()
    assert finished


def test_reports_and_dashboards_may_be_stopped_at_any_time(server: WarmServer, base: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with_base_and_tables(tmp_path / "work", base)
    watching = WarmCommand(server, tmp_path, "dashboard.py", [".", "--watch", "0.5"])
    begun(watching, "dashboard/data/version.js")
    beside = WarmCommand(server, tmp_path, "dashboard.py", ["."]).wait(60)
    assert beside.code == 0, beside.err
    watching.send(signal.SIGTERM)
    check_end(watching, signal.SIGTERM)
    assert unfinished_files(tmp_path / "work") == []
