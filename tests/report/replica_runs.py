"""Folders of replicated runs and of studies as training leaves them, written with plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.report.runs import LEVELS, write_run

from concrete_dropout import runfolder
from concrete_dropout.report import paper
from concrete_dropout.runfolder import REPLICA_LABELS, REPLICAS, STUDY, RunFolder

Labels = list[dict[str, Any]]

SPLITS: Labels = [{"data.split": split} for split in range(20)]
SIZES: Labels = [{"data.num_data": n, "seed": seed} for n in (10, 25, 50, 100, 1000, 10000) for seed in range(3)]
STARTS: Labels = [{"dropout.init_p": p, "seed": seed} for p in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5) for seed in range(2)]
LAYERS = ("network.layers.0", "network.layers.2", "network.layers.4")


def write_replicas(
    path: Path,
    labels: Labels | None = None,
    *,
    layers: Sequence[str] = LAYERS,
    dropout: str = "concrete",
    scores: tuple[float, float] = (-2.29, 2.70),
    errors: tuple[float, float] = (0.1, 0.3),
    moving: Sequence[int] = (),
    diverged: Sequence[int] = (),
    scored: bool = True,
    steps: int = 600,
    m_step: bool = False,
    **run: Any,
) -> Path:
    """A replicated run folder; keywords that are not named here replace entries of run.json.

    Args:
        path: of the folder.
        labels: of the replicas.
        layers: names.
        dropout: kind.
        scores: means of the test log-likelihood and RMSE.
        errors: their standard deviations over replicas.
        moving: replicas whose p has not converged.
        diverged: replicas without numbers.
        scored: False for a run that has not come to its end.
        steps: of training.
        m_step: whether there is a likelihood from before the final M step.
        **run: entries of run.json.
    """
    labels = SPLITS if labels is None else labels
    chance = random.Random(f"{path.name} {scores}")
    write_run(path, names=list(layers), dropout=dropout, steps=steps, inputs=2, replicas=len(labels), **run)
    for name in (
        runfolder.DROPOUT,
        runfolder.SUMMARY,
        *(runfolder.predictions_name(stage) for stage in ("val", "test")),
    ):
        (path / name).unlink(missing_ok=True)
    folder = RunFolder(path)
    keys = list(labels[0]) if labels else []
    folder.write_json(REPLICA_LABELS, {"keys": keys, "labels": labels})
    finals = [_finals(label, layers, chance) for label in labels]
    starts = [float(label.get("dropout.init_p", 0.1)) for label in labels]
    if dropout == "concrete":
        _write_traces(folder, layers, starts, finals, steps, moving)
    if not scored:
        for name in (runfolder.CONVERGENCE, runfolder.CALIBRATION, runfolder.UNCERTAINTY):
            (path / name).unlink(missing_ok=True)
        return path
    curve = {"expected": LEVELS, "observed": LEVELS, "rmse": 0.0, "sharpness": 1.0, "nll": -scores[0], "crps": 0.5}
    folder.write_json(runfolder.CALIBRATION, {"test": {**curve, "num_points": 51}})
    rows = []
    for index, label in enumerate(labels):
        metrics = _metrics(label, scores, errors, m_step, chance)
        if index in diverged:
            metrics = dict.fromkeys(metrics, math.nan)
        p = finals[index] if dropout == "concrete" else [0.1] * len(layers)
        row = {"replica": index, **label, "num_train": label.get("data.num_data", 455), **metrics, "unknown": "?"}
        if dropout != "none":
            row.update({f"p/{name}": value for name, value in zip(layers, p, strict=True)})
            row.update({f"initial_p/{name}": starts[index] for name in layers})
        rows.append({**row, "converged": index not in moving})
    folder.append_rows(REPLICAS, list(rows[0]), [list(row.values()) for row in rows])
    return path


def write_study(path: Path, states: dict[str, str], **study: Any) -> Path:
    """A study folder of UCI sets in various states, with a replicated run for each that has begun."""
    runs = []
    for name, state in states.items():
        row = paper.paper_row(name)
        ours = (row.log_likelihood["CDropoutM"][0] + 0.1, 0.97 * row.rmse["CDropout"][0]) if row else (-1.0, 1.0)
        labels = [{"data.split": split} for split in range(row.splits if row else 3)]
        error = "RuntimeError: loss is NaN\ntrace" if state == "failed" else None
        runs.append({"label": name, "folder": name, "state": state, "error": error})
        if state != "pending":
            spread = (0.1, 0.05 * abs(ours[1]))
            write_replicas(path / name, labels, scores=ours, errors=spread, scored=state == "finished", state=state)
    entry = {
        "kind": "uci_table",
        "state": "finished" if set(states.values()) <= {"finished"} else "running",
        "command": "python train.py experiment=uci_table",
        "commit": "3dbc73f0a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "hardware": "2 CPU cores (x86_64), no GPU",
        "started": "2026-03-01T12:00:00+00:00",
        "ended": "2026-03-01T12:41:00+00:00",
        "runs": runs,
    }
    RunFolder(path).write_json(STUDY, {**entry, **study})
    return path


def _finals(label: dict[str, Any], layers: Sequence[str], chance: random.Random) -> list[float]:
    """Few mask entries in the first layer: p near 0. Deeper layers: less with more data."""
    level = 0.55 - 0.1 * math.log10(label.get("data.num_data", 455))
    return [0.0004 if not i else max(0.01, level - 0.03 * i + 0.02 * chance.gauss(0, 1)) for i in range(len(layers))]


def _metrics(
    label: dict[str, Any], scores: tuple[float, float], errors: tuple[float, float], m_step: bool, chance: random.Random
) -> dict[str, float]:
    size = label.get("data.num_data", 455)
    epistemic = 1.6 * (size / 10) ** -0.2 * math.exp(0.03 * chance.gauss(0, 1))
    aleatoric = math.sqrt(1 + 0.5 * epistemic**2)
    ll, rmse = (chance.gauss(mean, error) for mean, error in zip(scores, errors, strict=True))
    shared = {
        "log_likelihood": ll,
        "nll": -ll,
        "rmse": rmse,
        "crps": 0.5 * rmse,
        "epistemic_std": epistemic,
        "aleatoric_std": aleatoric,
        "predictive_std": math.hypot(epistemic, aleatoric),
        "sharpness": 1.0,
        "calibration_rmse": 0.03,
    }
    found = {f"{stage}/{name}": value for stage in ("test", "val") for name, value in shared.items()}
    return {**found, "test/log_likelihood_before_m_step": ll - 0.4} if m_step else found


def _write_traces(
    folder: RunFolder,
    layers: Sequence[str],
    starts: list[float],
    finals: list[list[float]],
    steps: int,
    moving: Sequence[int],
) -> None:
    rows = []
    for step in range(0, steps + 1, max(1, steps // 60)):
        for index, ends in enumerate(finals):
            share = step / steps if index in moving else 1 - math.exp(-step / (0.08 * steps))
            rows += [
                (step, index, name, starts[index] + (end - starts[index]) * share)
                for name, end in zip(layers, ends, strict=True)
            ]
    folder.append_rows(runfolder.DROPOUT, ("step", "replica", "layer", "p"), rows)
