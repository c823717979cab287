"""Run folders as training leaves them, written with plain Python: complete ones and damaged ones."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.runfolder import DROPOUT_HEADER, METRICS_HEADER, RunFolder

LEVELS = [i / 100 for i in range(1, 100)]
SCALARS = {
    "nll": 1.512,
    "rmse": 1.043,
    "crps": 0.592,
    "log_likelihood": -1.512,
    "sharpness": 1.21,
    "calibration_rmse": 0.0314,
    "epistemic_std": 0.412,
    "aleatoric_std": 1.121,
    "predictive_std": 1.194,
}


def write_run(
    path: Path,
    *,
    dropout: str = "concrete",
    num_layers: int = 4,
    names: list[str] | None = None,
    inputs: int = 1,
    outputs: tuple[str, ...] = ("",),
    steps: int = 600,
    test: bool = True,
    moving: tuple[int, ...] = (),
    **run: Any,
) -> Path:
    """A complete run folder; keywords that are not named here replace entries of run.json."""
    chance = random.Random(0)
    folder = RunFolder(path)
    names = names or [f"network.layers.{3 * i}" for i in range(num_layers)]
    finals = [0.02 + 0.4 * math.sin(math.pi * i / max(len(names), 2)) ** 2 for i in range(len(names))]
    stages = ["val", "test"] if test else ["val"]
    _write_head(folder, dropout, names, steps, run)
    _write_metrics(folder, steps, stages, chance)
    if dropout == "concrete":
        _write_probabilities(folder, names, finals, steps, moving, chance)
    _write_evaluation(folder, stages, inputs, outputs, chance)
    ends = finals if dropout == "concrete" else [0.1] * len(names)
    summary = {name: {"initial": 0.1, "final": p} for name, p in zip(names, ends, strict=True) if dropout != "none"}
    metrics = {f"{stage}/{name}": value for stage in stages for name, value in SCALARS.items()}
    folder.write_json(runfolder.SUMMARY, {"metrics": metrics, "probabilities": summary})
    return path


def write_killed_run(path: Path, **keywords: Any) -> Path:
    """What a run has that is killed early: tables with a cut last row, nothing that comes at the end."""
    write_run(path, **{"steps": 200, "max_steps": 600, "step": 0, "state": "running", "ended": None, **keywords})
    for name in (
        runfolder.CONVERGENCE,
        runfolder.SUMMARY,
        runfolder.CALIBRATION,
        runfolder.UNCERTAINTY,
        runfolder.BAND,
    ):
        (path / name).unlink(missing_ok=True)
    for stage in ("val", "test"):
        (path / runfolder.predictions_name(stage)).unlink(missing_ok=True)
    metrics = [line for line in (path / runfolder.METRICS).read_text().splitlines() if ",train/" in line]
    (path / runfolder.METRICS).write_text("\n".join(["step,epoch,metric,value", *metrics, "210,1,tra"]))
    with (path / runfolder.DROPOUT).open("a") as file:
        file.write("210,netw")
    return path


def truncate(path: Path, share: float = 0.6) -> None:
    """Cut every file of a run folder short."""
    for file in path.iterdir():
        if file.is_file():
            content = file.read_bytes()
            file.write_bytes(content[: int(share * len(content))])


def _write_head(folder: RunFolder, dropout: str, names: list[str], steps: int, run: dict[str, Any]) -> None:
    layers = [
        {
            "name": name,
            "kind": dropout,
            "initial_p": 0.1 if dropout != "none" else 0.0,
            "owners": [f"network.layers.{3 * i + 1}"],
            "K": 1024 if i else 1,
        }
        for i, name in enumerate(names)
    ]
    entry = {
        "experiment": "synthetic",
        "dropout": dropout,
        "state": "finished",
        "error": None,
        "started": "2026-03-01T12:00:00+00:00",
        "ended": "2026-03-01T12:00:48+00:00",
        "command": f"python train.py experiment=synthetic dropout={dropout} data.num_data=1000",
        "commit": "3dbc73f0a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "seed": 0,
        "hardware": "2 CPU cores (x86_64), no GPU",
        "versions": {"python": "3.11.2", "torch": "2.15.0", "pytorch_lightning": "2.6.6", "concrete_dropout": "0.1.0"},
        "num_parameters": 2105346,
        "num_train": 1000,
        "kl_weight": 1.0,
        "max_steps": steps,
        "step": steps,
        "layers": layers,
        "loggers": {"wandb": "wandb/offline-run-20260301_120000-abc", "tensorboard": None},
        "checkpoints": {"last": "checkpoints/last.ckpt", "best": None},
    }
    folder.write_json(runfolder.RUN, {**entry, **run})
    folder.write_text(
        runfolder.CONFIG,
        "seed: 0\ndata:\n  _target_: concrete_dropout.data.SyntheticData\n  num_data: 1000\n  noise: 1.0\n"
        "dropout:\n  kind: concrete\n  init_p: 0.1\n  temperature: 0.1\n  length_scale: 0.0001\n",
    )
    diff = [
        {"key": "data.num_data", "default": 100, "value": 1000},
        {"key": "optim.p_lr", "default": None, "value": 0.02},
        {"key": "model.hidden", "default": [50, 50], "value": [1024, 1024, 1024]},
    ]
    folder.write_json(runfolder.CONFIG_DIFF, diff)


def _write_metrics(folder: RunFolder, steps: int, stages: list[str], chance: random.Random) -> None:
    rows: list[tuple[Any, ...]] = []
    for step in range(0, steps + 1, 5):
        nll = 1.45 + 2.5 * math.exp(-step / 80) + 0.15 * chance.gauss(0, 1)
        kl = 0.9 * math.exp(-step / 300) - 0.3
        rows += [
            (step, step // 32, name, value)
            for name, value in (("train/nll", nll), ("train/kl", kl), ("train/loss", nll + kl))
        ]
        if step and step % 60 == 0:
            rows += [
                (step, step // 32, f"val/{name}", value * (1 + math.exp(-step / 100)))
                for name, value in SCALARS.items()
            ]
    if "test" in stages:
        rows += [(steps, steps // 32, f"test/{name}", value) for name, value in SCALARS.items()]
    folder.append_rows(runfolder.METRICS, METRICS_HEADER, rows)


def _write_probabilities(
    folder: RunFolder, names: list[str], finals: list[float], steps: int, moving: tuple[int, ...], chance: random.Random
) -> None:
    rows: list[tuple[Any, ...]] = []
    for step in range(0, steps + 1, 5):
        for i, (name, final) in enumerate(zip(names, finals, strict=True)):
            share = step / steps if i in moving else 1 - math.exp(-step / (0.1 * steps))
            rows.append((step, name, 0.1 + (final - 0.1) * share + (0.002 * chance.gauss(0, 1) if step else 0.0)))
    folder.append_rows(runfolder.DROPOUT, DROPOUT_HEADER, rows)
    judged = {
        name: {
            "initial": 0.1,
            "final": final,
            "change_last_fifth": 0.2 * (final - 0.1) if i in moving else 0.0004,
            "trend_per_1000_steps": 0.001,
            "converged": i not in moving,
            "saturated": None,
        }
        for i, (name, final) in enumerate(zip(names, finals, strict=True))
    }
    criterion = "p changes by less than 0.01 over the last fifth of the steps"
    folder.write_json(runfolder.CONVERGENCE, {"layers": judged, "converged": not moving, "criterion": criterion})


def _write_evaluation(
    folder: RunFolder, stages: list[str], inputs: int, outputs: tuple[str, ...], chance: random.Random
) -> None:
    observed = [min(1.0, level + 0.1 * level * (1 - level)) for level in LEVELS]
    curve = {"expected": LEVELS, "observed": observed, "rmse": 0.0314, "sharpness": 1.21, "nll": 1.512, "crps": 0.592}
    folder.write_json(runfolder.CALIBRATION, {stage: {**curve, "num_points": 1000} for stage in stages})
    kinds = ("epistemic_std", "aleatoric_std", "predictive_std")
    folder.write_json(
        runfolder.UNCERTAINTY,
        {stage: {**{kind: SCALARS[kind] for kind in kinds}, "num_points": 1000} for stage in stages},
    )
    quantities = ("target", "mean", *kinds, "log_likelihood", "pit")
    header = [f"x:f{i}" for i in range(inputs)]
    header += [f"{name}:{output}" if output else name for output in outputs for name in quantities]
    for stage in stages:
        rows = []
        for _ in range(400):
            x = [chance.gauss(0, 1) for _ in range(inputs)]
            row: list[float] = list(x)
            for _ in outputs:
                mean, epistemic, aleatoric = 2 * x[0] + 8, 0.3 + 0.2 * abs(x[0]), 1.0 + 0.3 * abs(x[0])
                total = math.hypot(epistemic, aleatoric)
                target = chance.gauss(mean, total)
                z = (target - mean) / total
                pit = 0.5 * math.erfc(-z / math.sqrt(2))
                row += [target, mean, epistemic, aleatoric, total, -0.5 * z * z - math.log(total) - 0.919, pit]
            rows.append(row)
        folder.append_rows(runfolder.predictions_name(stage), header, rows)
    if inputs == 1 and len(outputs) == 1:
        grid = [-4 + 0.04 * i for i in range(201)]
        train = [chance.gauss(0, 1) for _ in range(500)]
        epistemic = [0.15 + 0.08 * x * x for x in grid]
        band = {
            "feature": "x",
            "target": "y",
            "x": grid,
            "mean": [2 * x + 8 for x in grid],
            "epistemic_std": epistemic,
            "predictive_std": [math.hypot(1.05, e) for e in epistemic],
            "train_x": train,
            "train_y": [2 * x + 8 + chance.gauss(0, 1) for x in train],
        }
        folder.write_json(runfolder.BAND, band)
