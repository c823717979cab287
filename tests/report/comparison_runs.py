"""Studies of single runs as training leaves them, written with plain Python: classification and segmentation."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tests.report.runs import write_run

from concrete_dropout import runfolder
from concrete_dropout.runfolder import METRICS_HEADER, RUN, STUDY, RunFolder

CLASSES = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "cyclist")
LAYERS = ("network.layers.0", "network.layers.3", "network.layers.6", "network.layers.9")
MNIST_SIZES = {"data.train_size": [1000, 5000, 10000, 20000, 50000], "seed": [0, 1, 2]}
MNIST_WIDTHS = {"model.hidden": [[128] * 3, [256] * 3, [512] * 3, [1024] * 3], "seed": [0, 1, 2]}
LENGTH_SCALES = {"dropout.length_scale": [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 2.0], "seed": [0, 1]}
KINDS = {"dropout.kind": ["none", "fixed", "concrete"], "seed": [0, 1]}
# accuracy, NLL and overconfidence of a kind of dropout, with MC and without
QUALITY = {"none": (0.962, 0.16, 0.03), "fixed": (0.968, 0.115, 0.012), "concrete": (0.969, 0.108, 0.008)}
CONFIG = """seed: 0
data:
  _target_: concrete_dropout.data.CamVidData
  scale: 0.5
  crop: 128
model:
  _target_: concrete_dropout.models.FCDenseNet
  growth: 8
task:
  _target_: concrete_dropout.tasks.SegmentationTask
  test_samples: 20
"""


def write_categorical_run(
    path: Path,
    values: Mapping[str, Any],
    *,
    segmentation: bool = False,
    layers: Sequence[str] = LAYERS,
    moving: Sequence[int] = (),
    **run: Any,
) -> Path:
    """A finished run of a classification or a segmentation, whose numbers follow from the values of the study's keys.

    Args:
        path: of the folder.
        values: key -> value.
        segmentation: else a classification.
        layers: names of the dropout layers.
        moving: those whose p has not converged.
        **run: entries of run.json.
    """
    kind = str(values.get("dropout.kind", "concrete"))
    chance = random.Random(json.dumps(values))
    entries = {"seed": values.get("seed", 0), "num_parameters": 247_391, "experiment": "generated", **run}
    write_run(path, dropout=kind, names=list(layers), inputs=2, moving=tuple(moving), **entries)
    for name in (
        runfolder.BAND,
        runfolder.UNCERTAINTY,
        *(runfolder.predictions_name(stage) for stage in ("val", "test")),
    ):
        (path / name).unlink(missing_ok=True)
    folder = RunFolder(path)
    folder.write_text(runfolder.CONFIG, CONFIG)
    size = float(values.get("data.train_size", 20000))
    penalty = 0.006 * math.log(50000 / size) + 0.004 * abs(math.log10(values.get("dropout.length_scale", 0.01)) + 2)
    metrics, calibration = {}, {}
    for suffix, share in (("", 1.0), ("_no_mc", 1.4)) if kind != "none" else (("", 1.0),):
        accuracy, nll, gap = QUALITY[kind]
        accuracy -= penalty + 0.002 * chance.random()
        noise = 1 + 0.05 * chance.gauss(0, 1)
        scores = _scores(accuracy, nll * share * noise * (1 + 10 * penalty), gap * share * noise, segmentation)
        metrics |= {f"test/{name}{suffix}": value for name, value in scores.items()}
        calibration[f"test{suffix}"] = _reliability(gap * share, chance) | {"rmse": scores["calibration_rmse"]}
    metrics |= {"train/elbo": -0.2 - 2 * penalty, "test/mutual_information": 0.02 + penalty if kind != "none" else 0.0}
    folder.write_json(runfolder.CALIBRATION, calibration)
    folder.write_json(runfolder.SELECTIVE, {"test": _selective(metrics, segmentation)})
    if segmentation:
        ious = [0.2 + 0.7 * math.sin(i + 1) ** 2 + 0.03 * chance.gauss(0, 1) for i in range(len(CLASSES))]
        entry = {"names": list(CLASSES), "iou": ious, "iou_no_mc": [iou - 0.01 for iou in ious]}
        folder.write_json(runfolder.CLASSES, {"test": entry})
    summary = folder.read_json(runfolder.SUMMARY)
    finals = _finals(values, layers, chance) if kind == "concrete" else {}
    for name, p in finals.items():
        summary["probabilities"][name]["final"] = p
    folder.write_json(runfolder.SUMMARY, summary | {"metrics": metrics})
    (path / runfolder.METRICS).unlink()
    folder.append_rows(runfolder.METRICS, METRICS_HEADER, [(600, 19, name, value) for name, value in metrics.items()])
    if kind == "concrete":
        _renew_probabilities(folder, finals)
    return path


def write_comparison(
    path: Path,
    grid: Mapping[str, list[Any]],
    states: Mapping[int, str] | None = None,
    *,
    moving: Mapping[int, Sequence[int]] | None = None,
    experiment: str = "generated",
    kind: str = "comparison",
    **keywords: Any,
) -> Path:
    """A study folder with a run for every combination of the grid.

    Args:
        path: of the folder.
        grid: key -> values.
        states: number of a run -> its state; the others are finished.
        moving: number of a run -> layers whose p has not converged.
        experiment: its name.
        kind: of the study.
        **keywords: of ``write_categorical_run``.
    """
    runs = []
    for index, combination in enumerate(product(*grid.values())):
        values = dict(zip(grid, combination, strict=True))
        name = ",".join(f"{key}={json.dumps(value)}".replace('"', "").replace(" ", "") for key, value in values.items())
        state = (states or {}).get(index, "finished")
        error = "RuntimeError: loss is NaN\ntrace" if state == "failed" else None
        label = ", ".join(f"{key}={json.dumps(value)}".replace('"', "") for key, value in values.items())
        runs.append({"label": label, "folder": name, "values": values, "state": state, "error": error})
        if state == "pending":
            continue
        write_categorical_run(path / name, values, moving=(moving or {}).get(index, ()), state=state, **keywords)
        RunFolder(path / name).write_text(runfolder.REPORT, "report")
        if state != "finished":
            for file in (runfolder.SUMMARY, runfolder.CONVERGENCE, runfolder.CALIBRATION, runfolder.SELECTIVE):
                (path / name / file).unlink(missing_ok=True)
            lines = (path / name / runfolder.METRICS).read_text().splitlines()
            (path / name / runfolder.METRICS).write_text("\n".join(line for line in lines if ",test/" not in line))
    done = all(run["state"] == "finished" for run in runs)
    entry = {
        "kind": kind,
        "experiment": experiment,
        "state": "finished" if done else "running",
        "command": f"python train.py experiment={experiment}",
        "commit": "3dbc73f0a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "hardware": "2 CPU cores (x86_64), no GPU",
        "started": "2026-03-01T12:00:00+00:00",
        "ended": "2026-03-01T12:41:00+00:00" if done else None,
        "grid": dict(grid),
        "runs": runs,
    }
    RunFolder(path).write_json(STUDY, entry)
    return path


def names_of_runs(path: Path) -> list[str]:
    return [str(run["folder"]) for run in RunFolder(path).read_json(STUDY)["runs"]]


def change_run(path: Path, name: str, **changes: Any) -> None:
    RunFolder(path / name).update_json(RUN, **changes)


def _scores(accuracy: float, nll: float, gap: float, segmentation: bool) -> dict[str, float]:
    found = {
        "nll": nll,
        "log_likelihood": -nll,
        "accuracy": accuracy,
        "brier": 1.4 * (1 - accuracy),
        "ece": 0.7 * gap,
        "mce": 4 * gap,
        "calibration_rmse": gap,
    }
    return found | ({"miou": accuracy - 0.45, "class_accuracy": accuracy - 0.35} if segmentation else {})


def _reliability(gap: float, chance: random.Random) -> dict[str, Any]:
    confidence = [(i + 0.5) / 20 for i in range(4, 20)]
    weights = [math.exp(6 * c) for c in confidence]
    frequency = [min(1.0, max(0.0, c - 8 * gap * (1 - c) + 0.01 * chance.gauss(0, 1))) for c in confidence]
    share = [weight / sum(weights) for weight in weights]
    return {"confidence": confidence, "frequency": frequency, "share": share, "num_points": 10000}


def _selective(metrics: Mapping[str, float], segmentation: bool) -> dict[str, Any]:
    left_out = [0.1 * i for i in range(10)]
    found: dict[str, Any] = {"left_out": left_out}
    for suffix, power in (("", 3.0), ("_epistemic", 2.0)):
        for name in ("accuracy", *(["miou"] if segmentation else [])):
            start = metrics[f"test/{name}"]
            found[f"{name}_kept{suffix}"] = [1 - (1 - start) * (1 - share) ** power for share in left_out]
        rmse = metrics["test/calibration_rmse"]
        found[f"calibration_rmse_kept{suffix}"] = [rmse * (1 - share) for share in left_out]
    return found


def _finals(values: Mapping[str, Any], layers: Sequence[str], chance: random.Random) -> dict[str, float]:
    """Less p with more data, more with wider layers, and hardly any in the first ones."""
    size, width = float(values.get("data.train_size", 20000)), float((values.get("model.hidden") or [512])[0])
    level = 0.5 - 0.12 * math.log10(size / 1000) + 0.06 * math.log2(width / 512)
    depth = [0.6 + 0.4 * math.sin(1.3 * i) if len(layers) > 8 else 0.15 + 0.28 * i for i in range(len(layers))]
    return {
        name: min(0.5, max(0.0004, level * share + 0.01 * chance.gauss(0, 1)))
        for name, share in zip(layers, depth, strict=True)
    }


def _renew_probabilities(folder: RunFolder, finals: Mapping[str, float]) -> None:
    judged = folder.read_json(runfolder.CONVERGENCE)
    for name, p in finals.items():
        judged["layers"][name]["final"] = p
    folder.write_json(runfolder.CONVERGENCE, judged)
    (folder.path / runfolder.DROPOUT).unlink()
    rows = [
        (step, name, 0.1 + (p - 0.1) * (1 - math.exp(-step / 60)))
        for step in range(0, 601, 20)
        for name, p in finals.items()
    ]
    folder.append_rows(runfolder.DROPOUT, runfolder.DROPOUT_HEADER, rows)
