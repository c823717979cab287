"""The list of a study's runs, and what became of those that did not end well."""

from __future__ import annotations

from concrete_dropout.report.comparison import Comparison, compare, moving, score
from concrete_dropout.report.comparison_sections import narrow, table_metrics
from concrete_dropout.report.components import Section, bullets, notice, table
from concrete_dropout.report.html import Html, tag
from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.record import STAGE_WORDS
from concrete_dropout.report.study_record import Member, Study
from concrete_dropout.report.text import count, duration, number, plus_minus, probability, whole

STATE_WORDS = {"pending": "not started", "": "not recorded"}
MAX_ERROR = 300
MAX_METRICS = 3
DIGITS = 4  # single runs have no error that says how many count


def study_notices(study: Study) -> list[Html]:
    """A study that did not end well, runs that failed, files that are damaged."""
    found = [_state(study), _failed(study), _problems(study)]
    return [box for box in found if box is not None]


def runs(study: Study) -> Section:
    """State, scores, length and report of every run."""
    replicated = any(member.replicas is not None for member in study.members)
    listing = _of_replicas(study) if replicated else _of_single_runs(compare(study))
    return Section("runs", "Runs", listing if study.members else "No run was recorded.")


def _of_replicas(study: Study) -> Html:
    header = ["Run", "State", "Replicas", "Log-likelihood", "RMSE", "Steps", "Time"]
    caption = "Every run leads to its own report; numbers are on test data"
    return table(header, [_replicas_row(m) for m in study.members], caption, numeric=(2, 3, 4, 5, 6), words=(1,))


def _of_single_runs(found: Comparison) -> Html:
    metrics = table_metrics(found)[:MAX_METRICS]
    header = ["Run", "State", *map(narrow, metrics), "p", "Steps", "Time"]
    rows = []
    for member in found.study.members:
        counts = member.state in ("finished", "")
        scores = [number(score(member, found.stage, metric), DIGITS) if counts else "–" for metric in metrics]
        steps = whole(member.record.step) if member.record is not None else "–"
        rows.append([_name(member), _state_of(member), *scores, _reach(member), steps, _time(member)])
    caption = f"Every run leads to its own report; numbers are on {STAGE_WORDS[found.stage]} data"
    return table(header, rows, caption, numeric=range(2, len(header)), words=(1,))


def _replicas_row(member: Member) -> list[object]:
    if member.replicas is None:
        return [_name(member), _state_of(member), "–", "–", "–", "–", "–"]
    replicas = member.replicas
    tested = replicas.stage == "test"
    scores = [replicas.score(name) if tested else None for name in ("log_likelihood", "rmse")]
    return [
        _name(member),
        _state_of(member),
        str(replicas.expected),
        *(plus_minus(score.mean, score.se) if score is not None else "–" for score in scores),
        whole(replicas.record.step),
        _time(member),
    ]


def _reach(member: Member) -> object:
    """The smallest and the largest p, marked where one had not converged."""
    layers = layers_of(member.record) if member.record is not None else []
    values = [layer.final for layer in layers if layer.final is not None]
    if not values:
        return "–"
    low, high = probability(min(values)), probability(max(values))
    text = low if low == high else f"{low}–{high}"
    return tag("span", f"{text}, moving", class_="flag") if moving([member]) else text


def _state_of(member: Member) -> object:
    if member.state not in ("failed", "interrupted"):
        return STATE_WORDS.get(member.state, member.state)
    error = f": {_first_line(member.error)}" if member.state == "failed" and member.error else ""
    return tag("span", f"{member.state}{error}", class_="flag")


def _time(member: Member) -> str:
    run = member.record.run if member.record is not None else {}
    return duration(run.get("started"), run.get("ended")) or "–"


def _name(member: Member) -> object:
    """A run's label, which leads to its report."""
    return tag("a", member.label, href=member.link) if member.link else member.label


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


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:MAX_ERROR]
