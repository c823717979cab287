"""Run folders of classification and segmentation as training leaves them, with pictures."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from tests.report.runs import write_run

from concrete_dropout import runfolder
from concrete_dropout.plots.pictures import default_colours, png
from concrete_dropout.runfolder import METRICS_HEADER, RunFolder

CLASS_SCORES = {
    "nll": 0.0512,
    "log_likelihood": -0.0512,
    "accuracy": 0.98644,
    "brier": 0.0213,
    "ece": 0.00431,
    "mce": 0.0912,
    "calibration_rmse": 0.00934,
    "predictive_entropy": 0.0711,
    "expected_entropy": 0.0592,
    "mutual_information": 0.0119,
}
PIXEL_SCORES = {**CLASS_SCORES, "accuracy": 0.9012, "miou": 0.67432, "class_accuracy": 0.7611}
CLASSES = ("Sky", "Building", "Pole", "Road", "Pavement", "Tree", "Sign", "Fence", "Car", "Pedestrian", "Bicyclist")
ENTROPIES = ("predictive_entropy", "expected_entropy", "mutual_information")


def write_classification(path: Path, *, names: tuple[str, ...] = tuple("0123456789"), **run: Any) -> Path:
    """A complete run on ten classes."""
    folder = _begin(path, {"experiment": "mnist", "num_train": 50000, **run}, CLASS_SCORES, ("val", "test"))
    _write_scores(folder, CLASS_SCORES, ("val", "test"))
    chance = random.Random(0)
    header = ("target", "predicted", "correct", "confidence", *ENTROPIES, "log_likelihood")
    for stage in ("val", "test"):
        rows = [_row(chance) for _ in range(300)]
        folder.append_rows(runfolder.predictions_name(stage), header, rows)
    entries = {
        stage: [_sample(folder, stage, kind, i, names) for kind in ("uncertain", "wrong") for i in range(6)]
        for stage in ("val", "test")
    }
    folder.write_json(runfolder.GALLERY, entries)
    return path


def write_segmentation(
    path: Path, *, names: tuple[str, ...] = CLASSES, steps: tuple[int, ...] = (50, 200, 600), **run: Any
) -> Path:
    """A complete run on eleven classes, with maps of two validation images through training and of one test image."""
    scores = {**PIXEL_SCORES, **{f"iou/{name}": 0.9 - 0.05 * i for i, name in enumerate(names)}}
    folder = _begin(path, {"experiment": "camvid", "num_train": 63417600, **run}, scores, ("val", "test"))
    _write_scores(folder, PIXEL_SCORES, ("val", "test"))
    colours = default_colours(len(names))
    classes = {
        stage: {"names": names, "iou": [0.9 - 0.05 * i for i in range(len(names) - 1)] + [None], "colours": colours}
        for stage in ("val", "test")
    }
    classes["test"]["iou_no_mc"] = [0.89 - 0.05 * i for i in range(len(names))]
    folder.write_json(runfolder.CLASSES, classes)
    facts = {"names": names, "colours": colours, "scales": {"epistemic": 0.6, "aleatoric": 2.4}}
    maps = {
        "val": {**facts, "images": [_image(folder, "val", i, steps) for i in (3, 7)]},
        "test": {**facts, "images": [_image(folder, "test", 2, steps[-1:])]},
    }
    folder.write_json(runfolder.MAPS, maps)
    return path


def _begin(path: Path, run: dict[str, Any], scores: dict[str, float], stages: tuple[str, ...]) -> RunFolder:
    """The head of a run and its p, with other metrics."""
    write_run(path, inputs=2, **run)
    folder = RunFolder(path)
    for name in (runfolder.METRICS, *(runfolder.predictions_name(stage) for stage in stages)):
        (path / name).unlink()
    rows: list[tuple[Any, ...]] = [(step, 0, "train/nll", 0.05 + math.exp(-step / 80)) for step in range(0, 601, 5)]
    for step in range(60, 601, 60):
        rows += [
            (step, step // 60, f"val/{name}", value * (1 + math.exp(-step / 100))) for name, value in scores.items()
        ]
    without = {f"{name}_no_mc": 1.02 * value for name, value in scores.items() if name not in ENTROPIES}
    rows += [(600, 10, f"test/{name}", value) for name, value in {**scores, **without}.items()]
    folder.append_rows(runfolder.METRICS, METRICS_HEADER, rows)
    metrics = {f"{stage}/{name}": value for stage in stages for name, value in scores.items()}
    metrics |= {f"test/{name}": value for name, value in without.items()}
    summary = folder.read_json(runfolder.SUMMARY)
    folder.write_json(runfolder.SUMMARY, {**summary, "metrics": metrics})
    return folder


def _write_scores(folder: RunFolder, scores: dict[str, float], stages: tuple[str, ...]) -> None:
    confidence = [0.325 + 0.05 * i for i in range(14)]
    share = [2.0**i for i in range(14)]
    short = {"rmse": "calibration_rmse", "ece": "ece", "mce": "mce", "nll": "nll", "brier": "brier"}
    entry = {
        "confidence": confidence,
        "frequency": [c - 0.3 * (1 - c) for c in confidence],
        "share": [s / sum(share) for s in share],
        **{name: scores[long] for name, long in short.items()},
        "num_points": 10000,
    }
    without = {**entry, "frequency": [c - 0.5 * (1 - c) for c in confidence]}
    folder.write_json(runfolder.CALIBRATION, {**dict.fromkeys(stages, entry), "test_no_mc": without})
    folder.write_json(
        runfolder.UNCERTAINTY,
        {stage: {**{name: scores[name] for name in ENTROPIES}, "num_points": 10000} for stage in stages},
    )
    shares = [i / 10 for i in range(10)]
    accuracy = scores["accuracy"]
    kept = {
        "accuracy": [1 - (1 - accuracy) * (1 - share) ** 2 for share in shares],
        "calibration_rmse": [scores["calibration_rmse"] * (1 - share) for share in shares],
    }
    if "miou" in scores:
        kept["miou"] = [1 - (1 - scores["miou"]) * (1 - share) for share in shares]
    curves = {f"{name}_kept{order}": values for name, values in kept.items() for order in ("", "_epistemic")}
    folder.write_json(runfolder.SELECTIVE, {stage: {"left_out": shares, **curves} for stage in stages})


def _row(chance: random.Random) -> list[float]:
    entropy = chance.expovariate(3.0)
    correct = float(chance.random() > min(0.6, entropy / 2))
    return [3.0, 3.0 if correct else 5.0, correct, math.exp(-entropy), entropy, 0.8 * entropy, 0.2 * entropy, -entropy]


def _sample(folder: RunFolder, stage: str, kind: str, number: int, names: tuple[str, ...]) -> dict[str, Any]:
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
    file = f"{runfolder.IMAGES}/gallery_{stage}_{kind}_{number}.png"
    folder.write_bytes(file, png(pixels))
    wrong = kind == "wrong" or number % 2
    return {
        "kind": kind,
        "index": 10 * number,
        "name": f"{stage} {10 * number}",
        "target": names[number],
        "predicted": names[number + 1] if wrong else names[number],
        "confidence": 0.99 - 0.05 * number,
        "predictive_entropy": 1.4 - 0.1 * number,
        "mutual_information": 0.12,
        "file": file,
    }


def _image(folder: RunFolder, stage: str, index: int, steps: tuple[int, ...]) -> dict[str, Any]:
    chance = np.random.default_rng(index)

    def picture(kind: str, step: int) -> str:
        file = f"{runfolder.IMAGES}/maps_{stage}_{index}_{step}_{kind}.png"
        folder.write_bytes(file, png(chance.integers(0, 256, (60, 80, 3), dtype=np.uint8)))
        return file

    kinds = ("prediction", "epistemic", "aleatoric", "error")
    numbers = {"wrong": 0.123, "mutual_information": 0.031, "expected_entropy": 0.52}
    return {
        "index": index,
        "name": f"{stage} image {index}",
        "input": picture("input", steps[0]),
        "target": picture("target", steps[0]),
        "steps": [
            {"step": step, "epoch": 1, **{kind: picture(kind, step) for kind in kinds}, **numbers} for step in steps
        ],
    }
