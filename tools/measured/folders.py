"""Run folders, studies and sweeps as a flat list of runs, read by the readers of the reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from concrete_dropout.errors import UserError
from concrete_dropout.report.record import SIGNS, UNREADABLE, Record, mapping, read_record
from concrete_dropout.report.replica_record import Replicas, is_replicated, read_replicas
from concrete_dropout.report.study_record import Study, is_study, read_study
from concrete_dropout.runfolder import EVALUATION, JOB, RunFolder

from .commands import words


@dataclass(frozen=True)
class Run:
    """One run, on its own or of a study.

    Args:
        label: for messages.
        state: "finished" or what else became of it.
        folder: where its files are; None where it has not begun.
        record: what its folder says; None where it has not begun.
        replicas: the same of several models that were trained as one.
        study: command of the study or sweep; "" for a run on its own.
        values: config key -> value in which it differs from that command.
        sweep: name of the file in conf/sweep that it is a job of; "" for none.
    """

    label: str
    state: str
    folder: Path | None = field(default=None, kw_only=True)
    record: Record | None
    replicas: Replicas | None = None
    study: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    sweep: str = ""

    def setting(self, key: str) -> Any:
        """A value of its config by dotted key; None where there is none."""
        node: Any = self._config()
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _config(self) -> Any:
        try:
            return yaml.safe_load(self.record.config) if self.record is not None else None
        except yaml.YAMLError:  # cut short by a kill
            return None


def runs_in(path: Path) -> list[Run]:
    """The runs of a run folder, of a study or a sweep, or of a folder of these.

    A folder inside of a study is read as what the study says about it, so that its rows are the same either way.

    Raises:
        UserError: where there is no run.
    """
    if is_study(path):
        return _placed(path, _of_study(read_study(path)))
    if not _is_run(path):
        found = [run for inner in _inside(path) for run in runs_in(inner)]
        if found:
            return found
    parent = path.resolve().parent
    members = _placed(parent, _of_study(read_study(parent))) if is_study(parent) else []
    own = [run for run in members if run.record is not None and run.record.name == path.resolve().name]
    return own or [replace(_alone(path), folder=path)]


def has_runs(path: Path) -> bool:
    """Whether ``runs_in`` finds a run; those that an evaluation has inside of it are its own affair."""
    if is_study(path) or _is_run(path):
        return True
    return path.is_dir() and not _is_evaluation(path) and any(True for _ in _inside(path))


def _placed(study: Path, runs: Iterable[Run]) -> list[Run]:
    return [replace(run, folder=study / run.record.name if run.record is not None else None) for run in runs]


def _of_study(study: Study) -> list[Run]:
    command = str(study.record.run.get("command") or "")
    sweep = _sweep(words(command))
    return [
        Run(f"{study.record.name}: {m.label}", m.state, m.record, m.replicas, command, m.values, sweep)
        for m in study.members
    ]


def _alone(path: Path) -> Run:
    replicas = read_replicas(path) if is_replicated(path) else None
    record = replicas.record if replicas is not None else read_record(path)
    return Run(record.name, record.state, record, replicas, sweep=_sweep(_overrides(path)))


def _sweep(given: Iterable[str]) -> str:
    return next((word.partition("=")[2] for word in given if word.startswith("sweep=")), "")


def _overrides(path: Path) -> list[str]:
    """What a job of a sweep that has not come to its end says about itself: the sweep has no study.json yet."""
    try:
        found = mapping(RunFolder(path).read_json(JOB)).get("overrides")
    except UNREADABLE:
        return []
    return [str(entry) for entry in found] if isinstance(found, list) else []


def _inside(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise UserError(f"{path} is no folder: give the folder of a run, a study or a sweep.")
    for inner in sorted(entry for entry in path.iterdir() if entry.is_dir()):
        holds_runs = not _is_evaluation(inner) and any(map(_is_run, filter(Path.is_dir, inner.iterdir())))
        if holds_runs or is_study(inner) or _is_run(inner):
            yield inner


def _is_evaluation(path: Path) -> bool:
    return (path / EVALUATION).is_file()


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in SIGNS)
