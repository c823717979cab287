"""One run in two processes through train.py: masks, p, metrics and files; killed, it goes on as if nothing were."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from .test_train import ROOT, Command, checkpoint_step, read_json, read_table

EPOCH, STEPS, NUM_VAL, NUM_TEST = 10, 300, 31, 21  # odd numbers: no process has as many rows as the other
TWO = [
    "trainer=ddp_cpu",
    "data.num_data=40",
    f"data.num_val={NUM_VAL}",
    f"data.num_test={NUM_TEST}",
    "data.batch_size=8",
    "data.eval_batch_size=5",
    "model.hidden=[8]",
    "task.val_samples=0",
    "task.test_samples=0",
    "callbacks.uncertainty.band_samples=5",
    f"trainer.max_steps={STEPS}",
    f"data.min_steps_per_epoch={EPOCH}",
    "trainer.log_every_n_steps=5",
    "logger=none",
]


def probe(place: Path) -> list[str]:
    return ["+callbacks.probe._target_=tests.probes.RankProbe", f"+callbacks.probe.folder='{place}'"]


def children(pid: int) -> list[int]:
    """Processes that a process has started, as the kernel has them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_the_end_of(pids: list[int], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Runs:
    whole: Path
    ranks: list[dict[str, Any]]
    output: str
    alone: Path
    resumed: Path
    resumed_ranks: list[dict[str, Any]]
    stopped: list[int]
    interrupted: Command
    reached: int  # step of the checkpoint that SIGTERM has left
    moments: str  # where the signals came


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    place = tmp_path_factory.mktemp("devices")
    whole, alone, broken = (place / name / "work" / "run" for name in ("whole", "alone", "broken"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        command = Command(place / "whole", *TWO, *probe(place / "ranks"), f"hydra.run.dir='{whole}'").wait()
        assert command.code == 0, command.err
        moments = Moments()
        killed = Command(place / "broken", *TWO, *probe(place / "again"), f"hydra.run.dir='{broken}'")
        codes = [moments.stop(killed, broken, lambda parent: parent)]  # the process that the user has started ...
        last = f"ckpt_path={broken}/checkpoints/last.ckpt"
        repeated = probe(place)[0]  # names code, which no folder may do on its own
        again = Command(place / "broken", last, repeated)
        codes += [moments.stop(again, broken, lambda parent: children(parent)[-1])]  # ... and one of its ranks
        assert "rank 1 failed: it was ended by SIGKILL" in again.err, moments.text
        interrupted = Command(place / "broken", last, repeated)
        codes += [moments.stop(interrupted, broken, lambda parent: parent, signal.SIGINT)]
        taken = Command(place / "broken", last, repeated)
        codes += [moments.stop(taken, broken, lambda parent: parent, signal.SIGTERM)]
        assert "Stopped by SIGTERM. It had come to step " in taken.err, moments.text
        reached = checkpoint_step(broken)
        single = Command(
            place / "alone", f"ckpt_path={whole}/checkpoints/last.ckpt", "train=false", "trainer=cpu", repeated,
            f"hydra.run.dir='{alone}'",
        )  # fmt: skip
        resumed = Command(place / "broken", last, repeated).wait()
        assert resumed.code == 0, resumed.err
        assert single.wait().code == 0, single.err
    ranks, resumed_ranks = (
        [torch.load(place / name / f"{rank}.pt", weights_only=True) for rank in (0, 1)] for name in ("ranks", "again")
    )
    text = command.out + command.err
    return Runs(whole, ranks, text, alone, broken, resumed_ranks, codes, interrupted, reached, moments.text)


class Moments:
    """Stops runs at random moments, and keeps which these were."""

    def __init__(self) -> None:
        self.text = ""
        self._random = random.SystemRandom()

    def stop(
        self, command: Command, folder: Path, whom: Callable[[int], int], number: signal.Signals = signal.SIGKILL
    ) -> int:
        """Send a process of a run a signal one to three epochs from its last checkpoint; returns the exit code."""
        step = max(checkpoint_step(folder), 0) + EPOCH * self._random.randint(1, 3)
        delay = self._random.uniform(0, 0.2)
        self.text += f"{number.name} {delay:.3f} s after the checkpoint of step {step}; "
        command.come_to(folder, step)
        time.sleep(delay)
        ranks = children(command.process.pid)
        assert len(ranks) == 2, self.text
        os.kill(whom(command.process.pid), number)
        began = time.monotonic()
        command.wait()
        wait_for_the_end_of(ranks)
        assert time.monotonic() - began < 30, self.text
        return command.code


def test_ranks_draw_their_own_masks_and_batches(runs: Runs) -> None:
    first, second = runs.ranks
    assert first["world_size"] == second["world_size"] == 2
    assert not torch.equal(first["generator"], second["generator"])
    for mine, yours in zip(first["rows"][:EPOCH], second["rows"][:EPOCH], strict=True):
        assert mine != yours
    own = [value for batch in first["rows"][:2] for value in batch]
    others = [value for batch in second["rows"][:2] for value in batch]
    assert len(set(own + others)) == 32  # the first batches of both together are no row twice


def test_weights_and_p_are_the_same_bits_in_all_ranks(runs: Runs) -> None:
    first, second = runs.ranks
    torch.testing.assert_close(first["weights"], second["weights"], rtol=0, atol=0)
    assert first["p"] == second["p"]
    assert all(abs(p - 0.1) > 1e-3 for p in first["p"].values())  # they were trained


def test_evaluation_is_that_of_one_process(runs: Runs) -> None:
    """Without masks, over the same rows: the same sums, up to the order of additions."""
    two, one = (read_json(folder / "summary.json")["metrics"] for folder in (runs.whole, runs.alone))
    tested = {name: value for name, value in one.items() if name.startswith("test/")}
    assert len(tested) > 6
    assert {name: two[name] for name in tested} == pytest.approx(tested, rel=1e-5, abs=1e-6)
    for name in ("calibration.json", "uncertainty.json"):
        ours, expected = (read_json(folder / name)["test"] for folder in (runs.whole, runs.alone))
        assert ours["num_points"] == expected["num_points"] == NUM_TEST
        numbers = {key for key, value in expected.items() if isinstance(value, float)}
        assert {key: ours[key] for key in numbers} == pytest.approx({key: expected[key] for key in numbers}, rel=1e-5)
    assert read_json(runs.whole / "calibration.json")["val"]["num_points"] == NUM_VAL
    ours, expected = (read_table(folder / "predictions_test.csv") for folder in (runs.whole, runs.alone))
    assert [row["x:x"] for row in ours] == [row["x:x"] for row in expected]  # every row once, in the data's order


def test_one_process_writes(runs: Runs) -> None:
    record = read_json(runs.whole / "run.json")
    assert (record["state"], record["step"], record["num_train"]) == ("finished", STEPS, 40)
    assert record["command"].startswith("python train.py trainer=ddp_cpu data.num_data=40")
    steps = [int(row["step"]) for row in read_table(runs.whole / "metrics.csv") if row["metric"] == "train/nll"]
    assert steps == list(range(5, STEPS + 1, 5))
    diff = {entry["key"]: entry["value"] for entry in read_json(runs.whole / "config_diff.json")}
    assert diff["trainer.strategy"] == "ddp"
    assert runs.output.count("synthetic: concrete dropout, N = 40") == runs.output.count("Test data") == 1
    assert "GLOBAL_RANK" not in runs.output
    assert {path.name for path in runs.whole.iterdir() if path.name.startswith(".")} == {".hydra"}


def test_ctrl_c_leaves_a_summary_and_the_way_to_go_on(runs: Runs) -> None:
    command = runs.interrupted
    assert "Validation data" in command.out
    assert "network.layers.0" in command.out
    assert "Stopped by Ctrl-C. It had come to step " in command.err
    assert "python train.py ckpt_path=run/checkpoints/last.ckpt" in command.err
    assert "Traceback" not in command.err
    assert "death signal" not in command.err  # words of the launcher


def test_a_killed_run_goes_on_as_if_nothing_had_happened(runs: Runs) -> None:
    assert runs.stopped == [-signal.SIGKILL, 1, 128 + signal.SIGINT, 128 + signal.SIGTERM], runs.moments
    assert 4 * EPOCH <= runs.reached < STEPS, runs.moments
    assert len(runs.resumed_ranks[0]["rows"]) == STEPS - runs.reached, runs.moments  # SIGTERM has lost no step
    ours, expected = (
        torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True) for folder in (runs.resumed, runs.whole)
    )
    assert ours["global_step"] == expected["global_step"] == STEPS
    torch.testing.assert_close(
        ours["state_dict"], expected["state_dict"], rtol=0, atol=0, msg=lambda text: f"{runs.moments}{text}"
    )
    for mine, whole in zip(runs.resumed_ranks, runs.ranks, strict=True):
        assert torch.equal(mine["generator"], whole["generator"])
        assert mine["rows"] == whole["rows"][-len(mine["rows"]) :]
    record = read_json(runs.resumed / "run.json")
    assert (record["state"], record["error"], record["step"]) == ("finished", None, STEPS)


def test_processes_of_different_configs_do_not_start(tmp_path: Path) -> None:
    """Here torchrun starts the processes, and a setting depends on their number."""
    through = (
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
    )
    folder, own = tmp_path / "run", "name=${oc.env:RANK}"
    command = Command(tmp_path, *TWO, own, f"hydra.run.dir='{folder}'", through=through).wait()
    assert command.code != 0
    assert "the 2 processes of this run have different configs, by rank: " in command.err
    assert 'name: "0", "1"' in command.err
    assert not (folder / "checkpoints").exists()
