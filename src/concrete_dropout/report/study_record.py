"""What a study folder says: its own record, and the runs in it as far as they have come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from concrete_dropout import runfolder
from concrete_dropout.errors import UserError
from concrete_dropout.report.record import UNREADABLE, Record, dicts, finite, mapping, read_record
from concrete_dropout.report.replica_record import Replicas, is_replicated, read_replicas
from concrete_dropout.runfolder import STUDY, RunFolder

COMPARISON, UCI_TABLE, CAMVID_TABLE, CONTROL_STUDY = "comparison", "uci_table", "camvid_table", "control"


@dataclass(frozen=True)
class Member:
    """One run of a study.

    Args:
        label: its values of the study's grid in words, for example the name of a UCI set.
        state: "pending", "running", "finished", "failed", "interrupted", or "" where it is not recorded.
        error: of a run that failed.
        values: config key -> value, for the keys of the study's grid.
        record: what its folder says; None where there is no readable run yet.
        replicas: the same of a run of several models that were trained as one; None for a run of one model.
        link: address of its report, relative to the study folder; "" where there is none.
    """

    label: str
    state: str
    error: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    record: Record | None = None
    replicas: Replicas | None = None
    link: str = ""


@dataclass(frozen=True)
class Study:
    """A study folder; what is missing or unreadable is empty, and ``record.problems`` says so."""

    record: Record
    members: tuple[Member, ...] = field(default_factory=tuple)

    @property
    def kind(self) -> str:
        """ "comparison", "uci_table", "camvid_table", "control", or what study.json says."""
        return str(self.record.run.get("kind") or COMPARISON)


def is_study(path: Path) -> bool:
    """Whether a folder holds a study."""
    return (path / STUDY).is_file()


def read_study(path: Path) -> Study:
    """Read a study folder and the runs in it.

    Raises:
        UserError: where there is no study.
    """
    if not path.is_dir():
        raise UserError(f"{path} is no folder: give the study folder that train.py printed.")
    if not is_study(path):
        raise UserError(f"{path} holds no study ({STUDY}): give the folder of a study.")
    problems: list[str] = []
    try:
        entry: Any = RunFolder(path).read_json(STUDY)
    except UNREADABLE as error:
        problems.append(
            f"{STUDY} cannot be read ({type(error).__name__}: {str(error)[:200]}); runs are found by folder."
        )
        entry = None
    listed = mapping(entry)
    runs = dicts(listed.get("runs")) or ([] if listed else _found(path))
    members = tuple(_member(path, run, problems) for run in runs)
    if not listed:
        # Without its record, a folder of runs over splits still is the table of sets.
        replicated = members and all(member.replicas is not None for member in members)
        listed = {"kind": UCI_TABLE if replicated else COMPARISON}
    return Study(_record(path, listed, members, problems), members)


def _record(path: Path, entry: dict[str, Any], members: tuple[Member, ...], problems: list[str]) -> Record:
    """The study as a record, so that its page has the same parts as a run's; gaps are filled from its runs."""
    run = dict(entry)
    for key in ("seed", "versions", "hardware", "commit", "dropout"):
        values = [m.record.run[key] for m in members if m.record is not None and m.record.run.get(key) is not None]
        if run.get(key) is None and values and all(value == values[0] for value in values):
            run[key] = values[0]
    return Record(name=path.resolve().name, run=run, problems=problems)


def _member(path: Path, run: dict[str, Any], problems: list[str]) -> Member:
    label = str(run.get("label") or run.get("folder") or "")
    state, error = str(run.get("state") or ""), str(run.get("error") or "")
    name = str(run.get("folder") or run.get("label") or "")
    bare = Member(label, state, error, mapping(run.get("values")) or _values_of(name))
    folder = path / name
    try:
        # A study links to nothing outside of itself.
        if not name or path.resolve() not in folder.resolve().parents or not folder.is_dir():
            return bare
        replicas = read_replicas(folder) if is_replicated(folder) else None
        record = replicas.record if replicas is not None else read_record(folder)
    except (UserError, *UNREADABLE) as problem:
        # A run that has not begun, or was refused before it did, has no record.
        if state not in ("", "pending", "running") and not error:
            problems.append(f"{name}: {str(problem)[:200]}")
        return bare
    problems += [f"{name}: {problem}" for problem in record.problems]
    link = f"./{quote(name)}/{runfolder.REPORT}" if (folder / runfolder.REPORT).is_file() else ""
    if state not in ("finished", "failed"):
        # The run knows better than a study that was killed before it wrote it down.
        state = record.state if record.state in ("finished", "failed", "interrupted") else state or record.state
    return replace(
        bare,
        state=state,
        error=error or str(record.run.get("error") or ""),
        record=record,
        replicas=replicas,
        link=link,
    )


def _found(path: Path) -> list[dict[str, Any]]:
    names = sorted(found.parent.name for found in path.glob(f"*/{runfolder.RUN}"))
    return [{"label": name, "folder": name} for name in names]


def _values_of(name: str) -> dict[str, Any]:
    """What a folder's name says about its run, where the study's record is lost.

    >>> _values_of("dropout.kind=fixed,seed=1"), _values_of("yacht")
    ({'dropout.kind': 'fixed', 'seed': 1.0}, {'run': 'yacht'})
    """
    pairs = [part.partition("=") for part in name.split(",")]
    if not all(sign for _, sign, _ in pairs):
        return {"run": name}
    return {key: value if (number := finite(value)) is None else number for key, _, value in pairs}
