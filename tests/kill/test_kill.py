"""Runs that are killed over and over at random moments, and always go on: make test-kill.

A moment that failed is in the message; KILL_SEED=<number of the message> draws the same ones again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from tests.test_devices import TWO, children, wait_for_the_end_of
from tests.test_train import LONG, Command, checkpoint_step

pytestmark = pytest.mark.skipif("TEST_KILL" not in os.environ, reason="takes minutes: make test-kill")
ROUNDS = int(os.environ.get("KILLS", "4"))
PARTS = {
    "one process": [*LONG, "logger=none", "trainer.max_steps=3000"],
    "two processes": [*TWO, "trainer.max_steps=600"],
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_run_that_is_killed_at_random_ends_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**6)))
    draw, story = random.Random(seed), f"KILL_SEED={seed}: "
    whole, broken = (tmp_path / name / "run" for name in ("whole", "broken"))
    command = Command(tmp_path / "whole", *PARTS[kind], f"hydra.run.dir='{whole}'").wait(900)
    assert command.code == 0, command.err
    for number in range(ROUNDS):
        step = checkpoint_step(broken)
        start = (
            [f"ckpt_path={broken}/checkpoints/last.ckpt"] if step > 0 else [*PARTS[kind], f"hydra.run.dir='{broken}'"]
        )
        command = Command(tmp_path / "broken", *start)
        whom, seconds = draw.choice(["command", "rank"]), draw.uniform(0, 3)
        story += f"{whom} {seconds:.3f} s after the start of training from step {max(step, 0)}; "
        print(story)
        if not wait_for_training(command, broken, number, story):
            break  # it had come to its end
        time.sleep(seconds)
        ranks = children(command.process.pid)
        victim = ranks[-1] if whom == "rank" and kind == "two processes" and ranks else command.process.pid
        os.kill(victim, signal.SIGKILL)
        command.wait(120)
        wait_for_the_end_of(ranks)
    resumed = Command(tmp_path / "broken", f"ckpt_path={broken}/checkpoints/last.ckpt").wait(900)
    assert resumed.code == 0, story + resumed.err
    ours, expected = (torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True) for folder in (broken, whole))
    torch.testing.assert_close(
        ours["state_dict"], expected["state_dict"], rtol=0, atol=0, msg=lambda text: f"{story}{text}"
    )
    assert ours["global_step"] == expected["global_step"], story


def wait_for_training(command: Command, folder: Path, number: int, story: str) -> bool:
    """Whether training is under way: run.log has one more start, and a checkpoint was written since."""
    log, deadline = folder / "run.log", time.monotonic() + 300
    began = time.time()
    last = folder / "checkpoints" / "last.ckpt"
    while not (log.is_file() and log.read_text().count("started:") > number and last.is_file()):
        if command.process.poll() is not None:
            return False
        assert time.monotonic() < deadline, story
        time.sleep(0.02)
    while last.stat().st_mtime < began and command.process.poll() is None:
        assert time.monotonic() < deadline, story
        time.sleep(0.02)
    return command.process.poll() is None
