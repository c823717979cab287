"""Short runs on CamVid from several initial values of p, without a test, for tests of the results page."""

from __future__ import annotations

import math
from pathlib import Path

from tests.docs.result_runs import FACTS, configure
from tests.report.vision_runs import write_segmentation

from concrete_dropout import runfolder
from concrete_dropout.runfolder import DROPOUT, DROPOUT_HEADER, RUN, STUDY, RunFolder


def starts_study(path: Path, starts: tuple[float, ...] = (0.05, 0.2, 0.5), seed: int = 0) -> Path:
    """Short runs from several initial values of p, without a test; p of layer i of seven goes to i / 20."""
    study = "python train.py experiment=camvid_small test=false trainer.max_epochs=4"
    runs = []
    for start in starts:
        place = path / f"dropout.init_p={start}"
        command = f"{study} study=null seed={seed} dropout.init_p={start}"
        write_segmentation(place, seed=seed, **{**FACTS, "experiment": "camvid_small", "command": command})
        untest(place)
        names = [f"layers.{i}.dropout" for i in range(7)]
        courses = {
            name: [i / 20 + (start - i / 20) * math.exp(-t / 40) for t in range(201)] for i, name in enumerate(names)
        }
        (place / DROPOUT).unlink()
        rows = [(10 * t, name, courses[name][t]) for t in range(201) for name in names]
        RunFolder(place).append_rows(DROPOUT, DROPOUT_HEADER, rows)
        layers = [{"name": name, "kind": "concrete", "initial_p": start} for name in names]
        RunFolder(place).update_json(RUN, layers=layers)
        judged = {name: {"converged": start < 0.4 or name == names[0]} for name in names}
        RunFolder(place).write_json(runfolder.CONVERGENCE, {"layers": judged})
        (place / runfolder.SUMMARY).unlink()
        configure(place, dropout={"kind": "concrete", "p": 0.2, "init_p": start})
        values = {"dropout.init_p": start}
        runs.append({"label": place.name, "folder": place.name, "values": values, "state": "finished", "error": None})
    RunFolder(path).write_json(
        STUDY, {"experiment": "camvid_small", "state": "finished", "command": study, "runs": runs}
    )
    return path


def untest(path: Path) -> Path:
    """Take everything out of a run that a test leaves."""
    files = RunFolder(path)
    rows = [row for row in files.read_table(runfolder.METRICS) if not row["metric"].startswith("test/")]
    (path / runfolder.METRICS).unlink()
    files.append_rows(runfolder.METRICS, runfolder.METRICS_HEADER, [tuple(row.values()) for row in rows])
    for name in (runfolder.CALIBRATION, runfolder.UNCERTAINTY, runfolder.SELECTIVE, runfolder.CLASSES, runfolder.MAPS):
        files.write_json(name, {stage: entry for stage, entry in files.read_json(name).items() if stage == "val"})
    files.update_json(runfolder.SUMMARY, metrics={})
    return path
