"""The sections that only sweeps have: the spread of p over initial values, and the cost of a grid."""

from __future__ import annotations

import json
from pathlib import Path

from concrete_dropout.report.comparison import compare
from concrete_dropout.report.study import build_study_report
from concrete_dropout.report.study_record import read_study
from concrete_dropout.report.sweep_sections import cost, seconds, spread
from concrete_dropout.runfolder import STUDY, RunFolder

from .comparison_runs import LAYERS, write_categorical_run, write_comparison


def test_the_spread_is_that_of_converged_p(tmp_path: Path) -> None:
    values = [0.05, 0.1, 0.2]
    write_comparison(tmp_path, {"dropout.init_p": values}, moving={1: [0]})
    found = compare(read_study(tmp_path))
    text = str(spread(found).body)
    ends = [group.probabilities(LAYERS[1])[0][0] for group in found.groups]
    assert f"{max(ends) - min(ends):.3f}" in text
    assert "2 of 3" in text  # of the first layer, one is still moving
    assert "3 initial values of p, from 0.050 to 0.200" in text
    page = build_study_report(tmp_path).read_text()
    assert "Does p depend on where it started?" in page


def test_the_cost_of_a_grid_is_that_of_all_its_runs(tmp_path: Path) -> None:
    runs = []
    for number, (kind, p, nll) in enumerate([("fixed", 0.1, 0.3), ("fixed", 0.5, 0.2), ("concrete", None, 0.19)]):
        values = {"dropout.kind": kind, **({} if p is None else {"dropout.p": p})}
        times = {"started": "2026-01-01T10:00:00", "ended": "2026-01-01T10:00:30", "step": 600}
        folder = RunFolder(write_categorical_run(tmp_path / str(number), {"dropout.kind": kind}, **times))
        summary = folder.read_json("summary.json")
        folder.write_json("summary.json", {**summary, "metrics": {**summary["metrics"], "val/nll": nll}})
        folder.append_rows("metrics.csv", ("step", "epoch", "metric", "value"), [(600, 19, "val/nll", nll)])
        runs.append({"label": str(number), "folder": str(number), "values": values, "state": "finished"})
    (tmp_path / STUDY).write_text(json.dumps({"kind": "grid_vs_concrete", "state": "finished", "runs": runs}))
    study = read_study(tmp_path)
    assert seconds(study.members[:2]) == 60
    text = str(cost(compare(study)).body)
    assert "fixed p, 2 runs" in text
    assert text.index("60") < text.index("0.2") < text.index("0.19")
    assert "A grid of p against one Concrete run" in build_study_report(tmp_path).read_text()
