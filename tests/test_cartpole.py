"""python train.py experiment=cartpole and python evaluate.py as a user types them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
EPISODES, STEPS = 3, 20
TINY = [
    "experiment=cartpole",
    f"agent.episodes={EPISODES}",
    f"trainer.max_steps={STEPS}",
    "agent.search.iterations=4",
    "agent.search.scouting=3",
    "agent.starts=5",
    "policy.size=4",
    "model.hidden=[16,16]",
    "task.test_samples=5",
]
NAMES = ("x", "x_dot", "theta", "theta_dot")


def start(place: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    place.mkdir(parents=True, exist_ok=True)
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "PYTEST", "OUTPUT_DIR"))
    }
    return subprocess.Popen(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=place,
        env={**clean, "HOME": str(place), "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def episode_of(folder: Path) -> int:
    path = folder / "checkpoints" / "last.ckpt"
    return int(torch.load(path, weights_only=True)["agent"]["episode"]) if path.is_file() else -1


@dataclass(frozen=True)
class Runs:
    whole: Path
    out: str
    broken: Path
    continued: tuple[int, str, str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run that is left alone, and one that is killed in its second episode and continued."""
    place = tmp_path_factory.mktemp("cartpole")
    whole, broken = place / "whole" / "run", place / "broken" / "run"
    first = start(place / "whole", "train.py", *TINY, f"hydra.run.dir='{whole}'")
    second = start(place / "broken", "train.py", *TINY, "logger=none", f"hydra.run.dir='{broken}'")
    deadline = time.monotonic() + 120
    while episode_of(broken) < 1:
        assert second.poll() is None, second.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second.send_signal(signal.SIGKILL)
    assert finish(second)[0] == -signal.SIGKILL
    again = start(place / "broken", "train.py", f"ckpt_path={broken}/checkpoints/last.ckpt")
    code, out, err = finish(first)
    assert code == 0, err
    return Runs(whole, out, broken, finish(again))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_says_what_came_of_every_episode(runs: Runs) -> None:
    lines = [line for line in runs.out.splitlines() if line.startswith("episode ")]
    assert len(lines) == EPISODES
    assert "reward" in lines[0]
    assert "in the model" in lines[0]
    assert "True reward over 5 starts" in runs.out
    assert "report.html" in runs.out


def test_the_numbers_of_every_episode_are_kept(runs: Runs) -> None:
    episodes = read(runs.whole / "control.json")["episodes"]
    assert [entry["episode"] for entry in episodes] == [1, 2, 3]
    assert [entry["num_train"] for entry in episodes] == [25, 50, 75]
    for entry in episodes:
        assert 0 <= entry["reward"]["mean"] <= 25
        assert set(entry["components"]) == set(NAMES)
        for component in entry["components"].values():
            assert component["ratio"] == pytest.approx(component["epistemic"] / component["error"])
            assert component["epistemic"] > 0
            assert component["observed_error"] > 0
        assert set(entry["rivals"]) == {"draws", "scout"}
        assert all(0 <= value <= 25 for value in entry["rivals"].values())
        assert entry["scout_acted"] or not entry["scout_chosen"]
        assert not entry["scout_chosen"] or entry["acted_return"] > 0
        assert 0 <= entry["far"]["calibration_rmse"] <= 1
        assert len(entry["far"]["bundles"][0]["observed"]) == 26
        assert all(0 < p < 1 for p in entry["p"].values())
        assert set(entry["p_change"]) == set(entry["p"])
    metrics = {row["metric"] for row in rows(runs.whole / "metrics.csv")}
    assert {"test/reward_draws", "test/reward_scout"} <= metrics
    assert {"test/reward", "test/reward_std", "test/model_reward", "test/epistemic_theta", "train/nll"} <= metrics
    layers = {row["layer"] for row in rows(runs.whole / "dropout.csv")}
    assert layers == {"network.layers.3", "network.layers.6"}  # all inputs are needed: none is dropped
    record = read(runs.whole / "run.json")
    assert (record["state"], record["step"], record["episode"]) == ("finished", EPISODES * STEPS, EPISODES)


def test_videos_of_the_first_a_middle_and_the_last_episode(runs: Runs) -> None:
    from PIL import Image

    files = sorted(path.name for path in (runs.whole / "videos").iterdir())
    assert files == ["episode_001.gif", "episode_002.gif", "episode_003.gif"]
    with Image.open(runs.whole / "videos" / files[0]) as film:
        assert film.n_frames > 20  # frames that look the same are joined


def test_the_report_shows_them(runs: Runs) -> None:
    text = (runs.whole / "report.html").read_text()
    assert text.count("data:image/gif;base64,") == 3
    for key in ("results", "learning", "videos", "uncertainty", "predictions", "probabilities"):
        assert f'<h2 id="{key}">' in text
    assert "could not be built" not in text


def test_wandb_has_the_numbers_and_the_videos(runs: Runs) -> None:
    pytest.importorskip("wandb")
    place = runs.whole / read(runs.whole / "run.json")["loggers"]["wandb"]
    found = subprocess.run(
        [str(Path(sys.executable).parent / "wandb"), "leet", "inspect", "--json", str(place)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    records = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    items = [set(record["history"]["item"]) for record in records if record["type"] == "history"]
    assert sum("test/reward" in item for item in items) == EPISODES
    assert sum(any(key.startswith("videos/") for key in item) for item in items) == EPISODES


def test_a_killed_run_goes_on_as_if_nothing_had_happened(runs: Runs) -> None:
    code, _, err = runs.continued
    assert code == 0, err
    ours, expected = (
        torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True) for folder in (runs.broken, runs.whole)
    )
    for key in ("state_dict", "agent", "step"):
        torch.testing.assert_close(ours[key], expected[key], rtol=0, atol=0)
    for name in ("metrics.csv", "dropout.csv"):
        assert (runs.broken / name).read_text() == (runs.whole / name).read_text()
    first, second = (read(folder / "control.json")["episodes"] for folder in (runs.broken, runs.whole))
    for entry in (*first, *second):
        del entry["seconds"]
    assert first == second
    record = read(runs.broken / "run.json")
    assert (record["state"], record["error"], record["episode"]) == ("finished", None, EPISODES)
    assert record["layers"][0]["initial_p"] == pytest.approx(read(runs.whole / "run.json")["layers"][0]["initial_p"])


def test_a_saved_policy_is_judged_again(runs: Runs) -> None:
    checkpoint = runs.whole / "checkpoints" / "last.ckpt"
    code, out, err = finish(start(runs.whole.parent, "evaluate.py", f"ckpt={checkpoint}", "starts=7"))
    assert code == 0, err
    numbers = json.loads(out.splitlines()[-1])
    assert (numbers["starts"], numbers["episode"]) == (7, EPISODES)
    assert numbers["reward_min"] <= numbers["reward"] <= numbers["reward_max"]
    assert read(runs.whole / "evaluation" / "evaluation.json")["reward"] == numbers["reward"]
    assert (runs.whole / "evaluation" / "policy.gif").read_bytes().startswith(b"GIF8")


def test_a_mistake_is_one_message(tmp_path: Path) -> None:
    code, _, err = finish(start(tmp_path, "train.py", "experiment=cartpole", "env.pole_length=-1"))
    assert code == 2
    assert "Error: env.pole_length=-1 must be above 0" in err
    assert "Traceback" not in err
    assert not (tmp_path / "outputs").exists()
