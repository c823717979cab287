"""Grid searches against one Concrete run: validation NLL and time of every job, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from concrete_dropout.report.replica_record import SEED, SPLIT

from .cells import Row, moment, setting, text
from .collect import GRID, facts_of, paper_experiment
from .commands import changes
from .experiments import Experiment
from .folders import Run, runs_in
from .models import Model, models_of
from .tuning import SET

# With columns of their own, or of no consequence for a score on validation data.
ASIDE = (SET, "test", "job")  # "job" is the number of a job in a sweep of one


def grid_rows(folders: Sequence[Path]) -> tuple[list[Row], list[str]]:
    """A row for every model of the jobs of grid searches, and notes on jobs that were left out.

    Raises:
        UserError: a folder without a run.
    """
    rows, notes = [], []
    for run in (run for folder in folders for run in runs_in(folder) if run.sweep == GRID):
        experiment, note = paper_experiment(run)
        made = list(_rows(run, experiment)) if experiment is not None else []
        rows += made
        if not made:
            notes.append(note or f"{run.label}: left out, it has no scores on validation data")
    return rows, notes


def _rows(run: Run, experiment: Experiment) -> Iterable[Row]:
    record = run.record
    assert record is not None
    kind = str(record.run.get("dropout") or "")
    started, ended = (moment(record.run.get(key)) for key in ("started", "ended"))
    command = run.study or str(record.run.get("command") or "")
    models = models_of(run)
    shared = {
        "experiment": experiment.name,
        "dropout": kind,
        "p": text(run.setting("dropout.p")) if kind == "fixed" else "",
        "steps": text(record.step),
        "seconds": text(round((ended - started).total_seconds())) if started and ended else "",
        "replicas": str(len(models)),
        **facts_of(record.run, run.study),
    }
    for model in models:
        labels = {key: value for key, value in model.labels.items() if key not in (SEED, SPLIT)}
        yield {
            **shared,
            "set": setting(labels.pop(SET, run.setting(SET))) or experiment.name,
            "settings": changes(command, {**run.values, **labels}, ASIDE),
            **_scores(model),
        }


def _scores(model: Model) -> Row:
    likelihood = model.scores.get("log_likelihood")
    nll = model.scores.get("nll", -likelihood if likelihood is not None else None)
    return {
        "split": model.labels.get(SPLIT, ""),
        "seed": model.labels.get(SEED, ""),
        "nll": text(nll),
        "accuracy": text(model.scores.get("accuracy")),
        "rmse": text(model.scores.get("rmse")),
        "learned_p": " ".join(f"{layer}={text(p)}" for layer, p in model.p.items()),
        "converged": text(model.converged) if model.p else "",
    }
