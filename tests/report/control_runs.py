"""Folders of agents' runs, as train.py leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from concrete_dropout.runfolder import CONTROL, RUN, STUDY, RunFolder

NAMES = ("x", "x_dot", "theta", "theta_dot")
GIF = b"GIF89a" + b"\0" * 20 + b";"


def entry(episode: int, reward: float, p: float | None = 0.2, **more: Any) -> dict[str, Any]:
    particles = [[[0.1 * t + 0.01 * k] * 4 for k in range(3)] for t in range(5)]
    component = {"error": 0.2, "epistemic": 0.1 if p else 0.0, "aleatoric": 0.05, "ratio": 0.5 if p else 0.0}
    return {
        "episode": episode,
        "num_train": 25 * episode,
        "reward": {"mean": reward, "std": 0.5, "starts": 50},
        "rivals": {"draws": reward, "scout": reward / 2},
        "model_reward": reward + 1,
        "p": {"layers.3": p / episode, "layers.6": p / 2} if p else {},
        "p_change": {"layers.3": -0.01, "layers.6": None} if p else {},
        "components": {name: dict(component) for name in NAMES},
        "honesty": component["ratio"],
        "far": {
            "calibration_rmse": 0.1,
            "expected": [0.25, 0.5, 0.75],
            "observed": [0.2, 0.4, 0.7],
            "bundles": [{"particles": particles, "observed": [[0.1 * t] * 4 for t in range(5)]}],
        },
        "seconds": 9.0,
        **more,
    }


def write_run(folder: Path, rewards: list[float], p: float | None = 0.2, dropout: str = "concrete") -> Path:
    files = RunFolder(folder)
    kinds = {"layers.0": "none", "layers.3": dropout, "layers.6": dropout}
    layers = [{"name": name, "kind": kind, "initial_p": 0.1, "owners": [], "K": 8} for name, kind in kinds.items()]
    run = {"experiment": "cartpole", "dropout": dropout, "state": "finished", "seed": 0, "step": 60}
    files.write_json(RUN, {**run, "layers": layers})
    entries = [entry(number, reward, p) for number, reward in enumerate(rewards, start=1)]
    entries[0]["video"] = "videos/episode_001.gif"
    files.write_bytes("videos/episode_001.gif", GIF)
    files.write_json(CONTROL, {"episodes": entries})
    return folder


def write_study(folder: Path, runs: dict[tuple[str, int], list[float]]) -> Path:
    listed = []
    for (kind, seed), rewards in runs.items():
        name = f"dropout.kind={kind},seed={seed}"
        write_run(folder / name, rewards, None if kind == "none" else 0.2, kind)
        values = {"dropout.kind": kind, "seed": seed}
        listed.append({"label": name, "folder": name, "values": values, "state": "finished", "error": None})
    RunFolder(folder).write_json(
        STUDY, {"kind": "control", "experiment": "cartpole_study", "state": "finished", "runs": listed}
    )
    return folder
