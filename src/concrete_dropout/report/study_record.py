"""What a study folder says: its own record, and the replicated runs in it as far as they have come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from concrete_dropout import runfolder
from concrete_dropout.errors import UserError
from concrete_dropout.report.record import UNREADABLE, Record, dicts, mapping
from concrete_dropout.report.replica_record import Replicas, read_replicas
from concrete_dropout.runfolder import STUDY, RunFolder

UCI_TABLE = "uci_table"


@dataclass(frozen=True)
class Member:
    """One run of a study.

    Args:
        label: for example the name of a UCI set.
        state: "pending", "running", "finished", "failed", "interrupted", or "" where it is not recorded.
        error: of a run that failed.
        replicas: its results; None where there is no readable run yet.
        link: address of its report, relative to the study folder; "" where there is none.
    """

    label: str
    state: str
    error: str = ""
    replicas: Replicas | None = None
    link: str = ""


@dataclass(frozen=True)
class Study:
    """A study folder; what is missing or unreadable is empty, and ``record.problems`` says so."""

    record: Record
    members: tuple[Member, ...] = field(default_factory=tuple)

    @property
    def kind(self) -> str:
        """ "uci_table", or what study.json says."""
        return str(self.record.run.get("kind") or "study")


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
        # Without its record, a folder of several sets still is the table of sets.
        listed = {"kind": UCI_TABLE}
    return Study(_record(path, listed, members, problems), members)


def _record(path: Path, entry: dict[str, Any], members: tuple[Member, ...], problems: list[str]) -> Record:
    """The study as a record, so that its page has the same parts as a run's; gaps are filled from its runs."""
    run = dict(entry)
    for key in ("seed", "versions", "hardware", "commit", "dropout"):
        values = [
            m.replicas.record.run[key] for m in members if m.replicas and m.replicas.record.run.get(key) is not None
        ]
        if run.get(key) is None and values and all(value == values[0] for value in values):
            run[key] = values[0]
    return Record(name=path.resolve().name, run=run, problems=problems)


def _member(path: Path, run: dict[str, Any], problems: list[str]) -> Member:
    label = str(run.get("label") or run.get("folder") or "")
    state, error = str(run.get("state") or ""), str(run.get("error") or "")
    name = str(run.get("folder") or run.get("label") or "")
    bare = Member(label, state, error)
    folder = path / name
    try:
        # A study links to nothing outside of itself.
        if not name or path.resolve() not in folder.resolve().parents or not folder.is_dir():
            return bare
        replicas = read_replicas(folder)
    except (UserError, *UNREADABLE) as problem:
        if state not in ("", "pending", "running"):
            problems.append(f"{name}: {str(problem)[:200]}")
        return bare
    problems += [f"{name}: {problem}" for problem in replicas.record.problems]
    link = f"./{quote(name)}/{runfolder.REPORT}" if (folder / runfolder.REPORT).is_file() else ""
    error = error or str(replicas.record.run.get("error") or "")
    own = replicas.record.state
    if state not in ("finished", "failed"):
        # The run knows better than a study that was killed before it wrote it down.
        state = own if own in ("finished", "failed", "interrupted") else state or own
    return replace(bare, state=state, error=error, replicas=replicas, link=link)


def _found(path: Path) -> list[dict[str, Any]]:
    names = sorted(found.parent.name for found in path.glob(f"*/{runfolder.RUN}"))
    return [{"label": name, "folder": name} for name in names]
