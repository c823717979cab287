"""Finished runs as rows: settings, scores, learned p, whether it converged, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concrete_dropout.report.control_record import component, episodes, reward, rival
from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.record import Record, finite, mapping
from concrete_dropout.report.replica_record import Replica

from .cells import Row
from .cells import moment as _time
from .cells import moment_text as _moment_text
from .cells import setting as _setting
from .cells import text as _text
from .commands import changes, portable
from .experiments import COMPONENTS, EXPERIMENTS, OF_LEARNED_P, Experiment, experiment_of
from .folders import Run, runs_in
from .kept import NOTHING, Kept, keep

FINISHED = "finished"
GRID = "grid_vs_concrete"  # a sweep with a file of its own: its p were not chosen, and its runs are no controls


@dataclass(frozen=True)
class Rows:
    """What one run says: an experiment's rows, or a note on why there are none; and what figures need beside them."""

    experiment: Experiment | None
    rows: tuple[Row, ...] = ()
    note: str = ""
    kept: Kept = NOTHING


def collect(path: Path, unfinished: bool = False) -> list[Rows]:
    """Rows of every run in a folder, but for those of a grid search, whose p nobody chose.

    Args:
        path: of a run, a study or a sweep.
        unfinished: take the episodes of agents that were stopped early too, whose rows say so. Other runs are scored
            on test data when they have come to their end, and have nothing to show before.
    """
    return [_of_run(run, unfinished) for run in runs_in(path) if run.sweep != GRID]


def paper_experiment(run: Run, unfinished: bool = False) -> tuple[Experiment | None, str]:
    """The experiment that a run belongs to, or a note on why it cannot count.

    Args:
        run: that may have come to its end.
        unfinished: whether agents that have not count too.
    """
    if run.record is None:
        return None, f"{run.label}: left out, it has not begun"
    name = str(run.record.run.get("experiment") or "")
    experiment = experiment_of(name)
    if experiment is None:
        known = ", ".join(run for entry in EXPERIMENTS for run in entry.runs)
        return None, f"{run.label}: left out, {name or 'its experiment'} is none of the paper's ({known})"
    if run.state != FINISHED and not (unfinished and experiment.is_agent):
        way = "; add --unfinished takes its episodes" if experiment.is_agent else ""
        return None, f"{run.label}: left out, it is {run.state or 'not recorded as finished'}{way}"
    return experiment, ""


def facts_of(record: Mapping[str, Any], study: str = "") -> Row:
    """Where numbers come from.

    Args:
        record: what a run or an evaluation says of itself.
        study: the command that made it among others.
    """
    return {
        "started": _moment_text(record.get("started")),
        "commit": _text(record.get("commit"))[:13],
        "hardware": _text(record.get("hardware")),
        "command": portable(str(record.get("command") or "")),
        "study": portable(study),
    }


def converged(record: Record) -> bool | None:
    """Whether every learned p has; None where none is learned, or nobody judged it."""
    judged = [layer.converged for layer in layers_of(record) if layer.learned]
    return None if not judged or None in judged else all(judged)


def _of_run(run: Run, unfinished: bool) -> Rows:
    experiment, note = paper_experiment(run, unfinished)
    if experiment is None:
        return Rows(None, note=note)
    assert run.record is not None
    rows = tuple(_rows(run, run.record, experiment))
    kept = keep(run, run.record, experiment, _shared(run, run.record, experiment)) if run.state == FINISHED else NOTHING
    if rows:
        return Rows(experiment, rows, kept=kept)
    what = f"no row, only what figures need ({kept.words})" if kept.rows else "left out"
    return Rows(experiment, note=f"{run.label}: {what}, it has no scores on test data", kept=kept)


def _rows(run: Run, record: Record, experiment: Experiment) -> Iterable[Row]:
    if experiment.is_agent:
        found = [_episode(run, record, entry) for entry in episodes(record)]
        for own in found[-1:]:
            own["converged"] = _text(converged(record))
    elif run.replicas is not None:
        found = [own for replica in run.replicas.rows if (own := _replica(run, record, replica, experiment))]
    else:
        found = [own] if (own := _single(run, record, experiment)) else []
    shared = _shared(run, record, experiment)
    for own in found:
        row = {**shared, **own}
        yield {column: row.get(column, "") for column in experiment.columns}


def p_of(run: Run, kind: str) -> Any:
    """The p that a run was given; none where it learned p."""
    return {"none": 0, "fixed": run.setting("dropout.p")}.get(kind, "")


def _shared(run: Run, record: Record, experiment: Experiment) -> Row:
    """What all rows of a run have in common."""
    facts = facts_of(record.run, run.study)
    kind = str(record.run.get("dropout") or "")
    p = p_of(run, kind)
    settings = {column: run.setting(key) for column, key in experiment.settings.items()}
    known = experiment.settings.values()
    conditions = {
        column: "" if key in OF_LEARNED_P and kind != "concrete" else _text(run.setting(key))
        for column, key in experiment.facts.items()
    }
    started, ended = (_time(record.run.get(key)) for key in ("started", "ended"))
    return {
        **{column: _setting(value) for column, value in settings.items()},
        **conditions,
        "dropout": kind,
        "p": _text(p),
        "split": _text(run.setting("data.split")),
        "seed": _text(record.run.get("seed")),
        "settings": changes(run.study or facts["command"], run.values, known),
        "steps": _text(record.step),
        "seconds": _text(round((ended - started).total_seconds())) if started and ended else "",
        "replicas": str(run.replicas.expected if run.replicas is not None else 1),
        "state": run.state,
        **facts,
    }


def _single(run: Run, record: Record, experiment: Experiment) -> Row:
    scores = {column: _score(record, name) for column, name in experiment.scores.items()}
    if all(value is None for value in scores.values()):
        return {}
    layers = {layer.name: layer.final for layer in layers_of(record)}
    shown = {column: _text(value) for column, value in scores.items()}
    return {**shown, "learned_p": _learned(record, layers), "converged": _text(converged(record))}


def _replica(run: Run, record: Record, replica: Replica, experiment: Experiment) -> Row:
    names = {column: name if "/" in name else f"test/{name}" for column, name in experiment.scores.items()}
    scores = {column: replica.scalars.get(name) for column, name in names.items()}
    if all(value is None for value in scores.values()):
        return {}
    keys = {"seed": "seed", "split": "data.split", **experiment.settings}
    kind = record.run.get("dropout")
    keys |= {"p": "dropout.p"} if kind == "fixed" else {}
    own = {column: _setting(replica.labels[key]) for column, key in keys.items() if key in replica.labels}
    # As numbers, which have one form: labels are texts, and 1.0 is 1 elsewhere.
    labels = {column: replica.labels[key] for column, key in experiment.facts.items() if key in replica.labels}
    own |= {column: _text(label if (number := finite(label)) is None else number) for column, label in labels.items()}
    learned = kind == "concrete"
    command = run.study or portable(str(record.run.get("command") or ""))
    return {
        **own,
        "settings": changes(command, {**run.values, **replica.labels}, experiment.settings.values()),
        **{column: _text(value) for column, value in scores.items()},
        "learned_p": _learned(record, dict(replica.p)),
        "converged": _text(replica.converged) if learned else "",
    }


def _episode(run: Run, record: Record, entry: dict[str, Any]) -> Row:
    moved = [abs(value) for change in mapping(entry.get("p_change")).values() if (value := finite(change)) is not None]
    values = {
        "episode": finite(entry.get("episode")),
        "reward": reward(entry),
        "reward_std": reward(entry, "std"),
        "starts": reward(entry, "starts"),
        "reward_draws": rival(entry, "draws"),
        "reward_scout": rival(entry, "scout"),
        "p_change": max(moved, default=None),
        **{key: finite(entry.get(key)) for key in ("num_train", "model_reward", "acted_return", "seconds")},
        **{key: finite(entry.get(key)) for key in ("honesty", "honesty_observed")},
        **{f"{what}_{name}": component(entry, name, what) for what in ("error", "epistemic") for name in COMPONENTS},
    }
    learned = {str(name): finite(p) for name, p in mapping(entry.get("p")).items()}
    told = {key: _text(entry.get(key)) for key in ("scout_acted", "scout_chosen")}
    return {**{key: _text(value) for key, value in values.items()}, **told, "learned_p": _learned(record, learned)}


def _score(record: Record, name: str) -> float | None:
    stage, _, metric = name.rpartition("/")
    return record.metric(stage or "test", metric)


def _learned(record: Record, layers: dict[str, float | None]) -> str:
    """layer=p of every layer that learned it."""
    if record.run.get("dropout") != "concrete":
        return ""
    return " ".join(f"{name}={_text(p)}" for name, p in layers.items() if p is not None)
