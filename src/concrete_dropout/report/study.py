"""The report of a study: several replicated runs in one folder, as far as they have come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from concrete_dropout import runfolder
from concrete_dropout.report import provenance, uci
from concrete_dropout.report.components import Section, bullets, guarded, notice, table
from concrete_dropout.report.html import Html, tag
from concrete_dropout.report.page import page
from concrete_dropout.report.study_record import UCI_TABLE, Member, Study, read_study
from concrete_dropout.report.text import count, duration, plus_minus, whole
from concrete_dropout.report.uci_sections import uci_lead, uci_sections
from concrete_dropout.runfolder import RunFolder

STATE_WORDS = {"pending": "not started", "": "not recorded"}
MAX_ERROR = 300


def build_study_report(folder: Path | str) -> Path:
    """Write report.html (and, for a UCI table, table.csv and table.md) into a study folder, from its files alone.

    Args:
        folder: with study.json and a run folder for each run that has begun; may be built again whenever one ends.

    Returns:
        The path of the report.

    Raises:
        UserError: where the folder holds no study.
    """
    path = Path(folder)
    study = read_study(path)
    if study.kind == UCI_TABLE:
        found = uci.entries(study)
        RunFolder(path).write_text(uci.TABLE_CSV, uci.table_csv(found))
        RunFolder(path).write_text(uci.TABLE_MD, uci.table_md(found))
    return RunFolder(path).write_text(runfolder.REPORT, render(study))


def render(study: Study) -> str:
    """The page of a study as text."""
    record = study.record
    is_table = study.kind == UCI_TABLE
    made: list[tuple[Callable[[], Section], str, str]] = uci_sections(study) if is_table else []
    made += [
        (partial(_runs, study), "runs", "Runs"),
        (partial(provenance.reproduction, record, []), "reproduce", "How to reproduce"),
    ]
    return page(
        "UCI regression, side by side with the paper" if is_table else study.kind,
        [guarded(build, key, heading) for build, key, heading in made],
        kind="Study report",
        lead=uci_lead(study) if is_table else f"{count(len(study.members), 'run')}.",
        facts=provenance.facts(record),
        notices=_notices(study),
        footer="Built from the files of the study folder alone. This page makes no network requests.",
    )


def _notices(study: Study) -> list[Html]:
    found = [_state(study), _failed(study), _problems(study)]
    return [box for box in found if box is not None]


def _state(study: Study) -> Html | None:
    if study.record.state == "finished":
        return None
    done = sum(member.state == "finished" for member in study.members)
    progress = f"{done} of {count(len(study.members), 'run')} finished; the tables have what there is."
    if study.record.state == "failed":
        error = str(study.record.run.get("error") or "")[:MAX_ERROR]
        return notice("bad", "This study failed.", tag("p", f"{error} {progress}".strip()))
    return notice("warning", "This study has not finished.", tag("p", f"It is running or was stopped. {progress}"))


def _failed(study: Study) -> Html | None:
    failed = [member for member in study.members if member.state == "failed"]
    lines = [f"{member.label}: {_first_line(member.error) or 'no message was recorded'}" for member in failed]
    return notice("bad", f"{count(len(failed), 'run')} failed.", bullets(lines)) if failed else None


def _problems(study: Study) -> Html | None:
    problems = study.record.problems
    return notice("warning", "Some files of this study are damaged.", bullets(problems[:12])) if problems else None


def _runs(study: Study) -> Section:
    """State, length and report of every run."""
    rows = [_row(member) for member in study.members]
    header = ["Run", "State", "Replicas", "Log-likelihood", "RMSE", "Training steps", "Time", "Report"]
    listing = table(header, rows, "Runs of this study; numbers are on test data", numeric=(2, 3, 4, 5, 6))
    return Section("runs", "Runs", listing if rows else "No run was recorded.")


def _row(member: Member) -> list[object]:
    state: object = STATE_WORDS.get(member.state, member.state)
    if member.state in ("failed", "interrupted"):
        state = tag("span", member.state, class_="flag")
    link = tag("a", "open", href=member.link, aria_label=f"Report of {member.label}") if member.link else "–"
    if member.replicas is None:
        return [member.label, state, "–", "–", "–", "–", "–", link]
    replicas, run = member.replicas, member.replicas.record.run
    tested = replicas.stage == "test"
    scores = [replicas.score(name) if tested else None for name in ("log_likelihood", "rmse")]
    return [
        member.label,
        state,
        str(replicas.expected),
        *(plus_minus(score.mean, score.se) if score is not None else "–" for score in scores),
        whole(replicas.record.step),
        duration(run.get("started"), run.get("ended")) or "–",
        link,
    ]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:MAX_ERROR]
