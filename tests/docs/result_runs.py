"""Finished runs of the paper's experiments, as folders, for tests of the results page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.report import control_runs
from tests.report.replica_runs import SIZES, SPLITS, write_replicas
from tests.report.vision_runs import write_classification, write_segmentation

from concrete_dropout.runfolder import CONFIG, CONTROL, JOB, REPLICAS, RUN, STUDY, RunFolder

TIMES = {"started": "2026-03-01T12:00:00+00:00", "ended": "2026-03-01T12:10:00+00:00"}
HARDWARE = "Some CPU, 1 threads of 2 cores"
FACTS = {**TIMES, "commit": "3dbc73f0a1b2", "hardware": HARDWARE}


def configure(path: Path, kind: str = "concrete", p: float = 0.2, **more: Any) -> Path:
    """Write the parts of a config that rows are about."""
    config = {"dropout": {"kind": kind, "p": p}, **more}
    RunFolder(path).write_text(CONFIG, yaml.safe_dump(config))
    return path


def synthetic(path: Path, kind: str = "concrete", more: str = "", **run: Any) -> Path:
    command = f"python train.py experiment=synthetic_study dropout={kind} {more} hydra.run.dir=/somewhere/run"
    write_replicas(path, SIZES, dropout=kind, experiment="synthetic_study", command=command, **{**FACTS, **run})
    return configure(path, kind, data={"num_data": 100})


def uci_study(path: Path, sets: dict[str, tuple[float, float]], kind: str = "concrete", **run: Any) -> Path:
    """A study of sets with means of log-likelihood and RMSE."""
    runs = []
    for name, scores in sets.items():
        facts = {**FACTS, "command": f"python train.py experiment=uci_table data.name={name} data.batch_size=64", **run}
        write_replicas(
            path / name, SPLITS, scores=scores, errors=(0.01, 0.01), dropout=kind, experiment="uci_table", **facts
        )
        configure(path / name, kind, data={"name": name, "split": 0}, task={"kl_weight": 5.0})
        runs.append({"label": name, "folder": name, "values": {"data.name": name}, "state": "finished", "error": None})
    command = f"python train.py experiment=uci_table dropout={kind}"
    RunFolder(path).write_json(
        STUDY, {"kind": "uci_table", "experiment": "uci_table", "state": "finished", "command": command, "runs": runs}
    )
    return path


def mnist(path: Path, seed: int = 0, kind: str = "concrete", more: str = "", **run: Any) -> Path:
    command = f"python train.py experiment=mnist seed={seed} dropout={kind} {more} logger=none".replace("  ", " ")
    write_classification(path, seed=seed, dropout=kind, **{**FACTS, "command": command, **run})
    return configure(path, kind)


def mnist_study(path: Path, sizes: tuple[int, ...] = (1000, 50000)) -> Path:
    runs = []
    for size in sizes:
        place, values = path / str(size), {"seed": 0, "data.train_size": size}
        command = f"python train.py experiment=mnist_data_size study=null seed=0 data.train_size={size}"
        write_classification(place, experiment="mnist_data_size", **FACTS, command=command)
        configure(place, data={"train_size": size})
        runs.append({"label": str(size), "folder": str(size), "values": values, "state": "finished", "error": None})
    study = {"experiment": "mnist_data_size", "state": "finished", "command": "python train.py -m x", "runs": runs}
    RunFolder(path).write_json(STUDY, study)
    return path


def camvid(path: Path, seed: int = 0, kind: str = "concrete", **run: Any) -> Path:
    command = f"python train.py experiment=camvid_table study=null seed={seed} dropout.kind={kind}"
    write_segmentation(path, seed=seed, dropout=kind, experiment="camvid_table", **{**FACTS, "command": command, **run})
    return configure(path, kind)


def cartpole_study(path: Path, runs: dict[tuple[str, int], list[float]], started: str = TIMES["started"]) -> Path:
    """A study of agents, as one of two folders that share its runs."""
    control_runs.write_study(path, runs)
    seeds = ",".join(sorted({str(seed) for _, seed in runs}))
    command = f"python train.py experiment=cartpole_study 'study.grid={{seed:[{seeds}]}}' hydra.run.dir={path}"
    RunFolder(path).update_json(STUDY, command=command)
    for kind, seed in runs:
        place = path / f"dropout.kind={kind},seed={seed}"
        own = f"python train.py experiment=cartpole_study study=null seed={seed} dropout.kind={kind}"
        facts = {**FACTS, "started": started, "command": own, "experiment": "cartpole_study", "seed": seed}
        RunFolder(place).update_json(RUN, **facts)
        configure(place, kind, 0.1)
    return path


def tuning(
    path: Path,
    name: str = "yacht",
    likelihood: float = -1.0,
    more: str = "",
    scales: tuple[float, ...] = (),
    **run: Any,
) -> Path:
    """A run that was made to choose settings: five splits with validation scores, for each of some length scales."""
    labels: list[dict[str, Any]] = [{"data.split": split} for split in range(5)]
    if scales:
        labels = [{**label, "dropout.length_scale": scale} for scale in scales for label in labels]
    command = f"python train.py experiment=uci data.name={name} data.val_fraction=0.1 test=false {more}".strip()
    facts = {**FACTS, "command": f"{command} hydra.run.dir=/somewhere/run", **run}
    write_replicas(path, labels, scores=(likelihood, 0.5), errors=(0.01, 0.01), experiment="uci", **facts)
    table = RunFolder(path).read_table(REPLICAS)
    kept = [name for name in table[0] if not name.startswith("test/")]
    (path / REPLICAS).unlink()
    RunFolder(path).append_rows(REPLICAS, kept, [[row[name] for name in kept] for row in table])
    return configure(path, data={"name": name, "split": 0, "val_fraction": 0.1}, seed=0)


def grid_search(path: Path, likelihoods: dict[str, float], more: str = "", seeds: tuple[int, ...] = (0,)) -> Path:
    """A sweep over p ("" for a learned one) on yacht, each with five splits; a job of a fixed p takes ten minutes."""
    jobs = []
    for seed in seeds:
        for p, likelihood in likelihoods.items():
            kind, place = ("fixed" if p else "concrete"), path / str(len(jobs))
            own = {"dropout.kind": kind, "seed": seed, **({"dropout.p": float(p)} if p else {})}
            ended = TIMES["ended"] if p else "2026-03-01T12:05:00+00:00"
            tuning(place, likelihood=likelihood, more=f"dropout={kind}", dropout=kind, seed=seed, ended=ended)
            configure(place, kind, float(p or 0.1), data={"name": "yacht", "split": 0, "val_fraction": 0.1}, seed=seed)
            RunFolder(place).write_json(JOB, {"overrides": ["experiment=uci", "sweep=grid_vs_concrete"]})
            jobs.append({"label": str(own), "folder": place.name, "values": own, "state": "finished", "error": None})
    command = f"python train.py -m experiment=uci data.name=yacht sweep=grid_vs_concrete test=false {more}".strip()
    RunFolder(path).write_json(STUDY, {"kind": "grid_vs_concrete", "command": command, "runs": jobs})
    return path


def stop(path: Path, episodes: int) -> Path:
    """Make an agent's run one that was interrupted after so many episodes; its study knows nothing of it."""
    files = RunFolder(path)
    files.update_json(RUN, state="interrupted")
    files.update_json(CONTROL, episodes=files.read_json(CONTROL)["episodes"][:episodes])
    study = RunFolder(path.parent)
    runs = [
        {**run, "state": "running"} if run["folder"] == path.name else run for run in study.read_json(STUDY)["runs"]
    ]
    study.update_json(STUDY, runs=runs)
    return path


def everything(path: Path) -> list[Path]:
    """Folders of every kind of experiment, with controls."""
    kinds = ("concrete", "fixed", "none")
    folders = [synthetic(path / f"synthetic_{kind}", kind) for kind in kinds]
    sets = {"yacht": (-0.7, 0.5), "boston": (-2.5, 3.0)}
    folders += [uci_study(path / f"uci_{kind}", sets, kind) for kind in kinds]
    folders += [mnist(path / f"mnist_{kind}_{seed}", seed, kind) for kind in kinds for seed in (0, 1, 2)]
    folders += [mnist_study(path / "mnist_data_size")]
    folders += [camvid(path / f"camvid_{kind}_{seed}", seed, kind) for kind in kinds for seed in (0, 1)]
    folders.append(cartpole_study(path / "a", {("none", 0): [1.0, 5.0], ("concrete", 0): [2.0, 17.0]}))
    folders.append(cartpole_study(path / "b", {("fixed", 1): [3.0, 16.0], ("concrete", 1): [2.0, 9.0]}))
    return folders
