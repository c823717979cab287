"""Folders of evaluate.py, written with plain Python, for tests of the results page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.docs.result_runs import HARDWARE, TIMES, mnist

from concrete_dropout.runfolder import EVALUATION, RunFolder

CORRUPTIONS = ("blur", "rotation")
SEVERITIES = (1, 3, 5)
OOD = ("digits", "noise")


def metrics(nll: float) -> dict[str, float]:
    return {"nll": nll, "accuracy": 1 - nll / 4, "ece": nll / 10, "calibration_rmse": nll / 20, "brier": nll / 2}


def detection(auroc: float, epistemic: bool = True) -> dict[str, dict[str, float]]:
    scores = {"auroc": auroc, "aupr": auroc - 0.01, "fpr95": 1 - auroc}
    return {"predictive": scores, "confidence": scores, **({"epistemic": scores} if epistemic else {})}


def write(path: Path, runs: Sequence[Path], passes: list[dict[str, Any]], plan: dict[str, Any], **facts: Any) -> Path:
    """The file of an evaluation of some runs, as one ensemble where there are several."""
    name = runs[0].name if len(runs) == 1 else f"ensemble of {len(runs)}"
    kind = RunFolder(runs[0]).read_json("run.json")["dropout"]
    subject = {
        "name": name,
        "group": name,
        "checkpoint": ", ".join(f"{run}/checkpoints/last.ckpt" for run in runs),
        "experiment": "mnist",
        "dropout": kind,
        "seed": RunFolder(runs[0]).read_json("run.json")["seed"],
    }
    defaults = {"masks": ["concrete"], "corruptions": [], "ood": [], "shift_samples": 50}
    record = {
        "state": "finished",
        "plan": {**defaults, **plan},
        "subjects": [{**subject, **facts.pop("subject", {})}],
        "passes": [{"subject": name, "part": "test", "repeat": 0, "is_reference": True, **entry} for entry in passes],
        "started": TIMES["started"],
        "commit": "3dbc73f0a1b2",
        "hardware": HARDWARE,
        "command": f"python evaluate.py ckpt={path}/run mc_samples=50 out=somewhere",
        **facts,
    }
    RunFolder(path).write_json(EVALUATION, record)
    return path


def of_masks(path: Path, seed: int = 0, gap: float = 0.01, **facts: Any) -> Path:
    """Concrete and Bernoulli masks with two numbers of samples and two repeats; without dropout NLL is 0.3."""
    passes = [{"mask": None, "shift": "", "severity": 0, "rows": [{"samples": 0, "metrics": metrics(0.3)}]}]
    for mask, more in (("concrete", 0.0), ("bernoulli", gap)):
        for repeat in (0, 1):
            rows = [
                {"samples": samples, "metrics": metrics(0.2 + more + 0.01 * seed + 1 / samples + 0.002 * repeat)}
                for samples in (10, 100)
            ]
            passes.append({"mask": mask, "repeat": repeat, "shift": "", "severity": 0, "rows": rows})
    run = mnist(path / "run", seed)
    return write(path, [run], passes, {"masks": ["concrete", "bernoulli"]}, **facts)


def of_shifts(
    path: Path,
    kind: str,
    seeds: tuple[int, ...] = (0,),
    base: float = 0.1,
    corruptions: Sequence[str] = CORRUPTIONS,
    **facts: Any,
) -> Path:
    """Clean data, corruptions whose NLL is ``base`` * (1 + severity), and data from elsewhere with AUROC 1 - base."""
    runs = [mnist(path / f"run{seed}", seed, kind) for seed in seeds]
    mask = {"none": None, "fixed": "bernoulli", "concrete": "concrete"}[kind]
    samples = 50 if mask else 0

    def one(shift: str, severity: int, **row: Any) -> dict[str, Any]:
        return {"mask": mask, "shift": shift, "severity": severity, "rows": [{"samples": samples, **row}]}

    sampled = mask is not None or len(seeds) > 1
    passes = [one("", 0, metrics=metrics(base))]
    for name in corruptions:
        for severity in SEVERITIES:
            told = detection(0.6, sampled)
            passes.append(one(name, severity, metrics=metrics(base * (1 + severity)), detection=told))
    passes += [one(name, 0, detection=detection(1 - base, sampled)) for name in OOD]
    if mask:  # one pass without dropout comes beside the sampled ones
        passes.append({**one("blur", 1, metrics=metrics(9.0)), "mask": None})
    return write(path, runs, passes, {"corruptions": list(corruptions), "ood": list(OOD)}, **facts)
