"""What a section of the page is made of: its text, its figures, its line in the short version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from concrete_dropout.report.text import count

from .cells import Row
from .collect import FINISHED
from .commands import of_any_seed, portable, words
from .experiments import Experiment
from .plan import expanded
from .published import Published
from .tables import Group, code, converged_words, provenance, source_of, span

NOT_RUN = "not run yet"
KIND_WORDS = {"concrete": "Concrete", "none": "p = 0", "fixed": "fixed p"}
SHORT = ("experiment", "what", "paper", "Concrete", "p = 0", "fixed p", "seeds or splits", "p converged")
BEYOND = ("experiment", "what", "found", "seeds or splits", "p converged")
ELSE = "parts of it, of shorter runs or of ones with other settings; their commands stand below the tables."


@dataclass(frozen=True)
class Part:
    """One experiment on the page.

    Args:
        lines: Markdown below its heading.
        short: what the short version says: what is measured, the paper, ours by kind, number of repeats, converged;
            nothing for a section without a line there.
        figures: name of a file -> SVG.
        also: further such lines.
        beyond: what its second table says, of what is no comparison of kinds: what is measured, what was found,
            number of repeats, converged.
    """

    lines: list[str]
    short: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict)
    also: tuple[tuple[str, ...], ...] = ()
    beyond: tuple[str, ...] = ()


def head(experiment: Experiment, rows: list[Row]) -> list[str]:
    """Where it stands in the paper, the commands, and the file of its rows."""
    line = f"The paper's {experiment.place}. {made_by((experiment.command, *experiment.controls), rows)}"
    if experiment.more:
        line += f" Further parts: {_listed(experiment.more)}."
    if rows:
        line += f" Every run: [{experiment.name}.csv](results/{experiment.name}.csv)."
    return [line, ""]


def to_be_made(commands: Sequence[str], name: str, rows: list[Row], has_file: bool = True) -> str:
    """The commands behind a section that is no experiment of the paper's, all by one, and the file of its rows."""
    made = f"{made_by(commands, rows)} {code(f'python tools/results.py run {name}')} runs all that the whole takes."
    return f"{made} Every run: [{name}.csv](results/{name}.csv)." if rows and has_file else made


def made_by(commands: Sequence[str], rows: list[Row]) -> str:
    """Which commands make a section, and whether its rows are theirs."""
    if not rows:
        return f"To be made by {_listed(commands)}."
    done = [command for command in commands if was_run(command, rows)]
    left = [command for command in commands if command not in done]
    if not done:
        return f"The whole experiment is {_listed(commands)}; the rows below are of {ELSE}"
    known = {one for command in done for one in _forms(command)}
    more = "" if all(_form(source_of(row)) in known for row in rows) else f" Other rows are of {ELSE}"
    also = f" To the whole experiment {'belongs' if len(left) == 1 else 'belong'} {_listed(left)} too." if left else ""
    return f"Made by {_listed(done)}.{also}{more}"


def was_run(command: str, rows: Iterable[Row]) -> bool:
    """Whether rows come from a command, or from one that its SEED or SET stands for."""
    return not _forms(command).isdisjoint(_form(source_of(row)) for row in rows)


def foot(rows: list[Row]) -> list[str]:
    """Which kinds of dropout are missing, what was left out of the means, and where the numbers come from."""
    kinds = {row["dropout"] for row in rows if row["state"] == FINISHED}
    missing = [words for kind, words in KIND_WORDS.items() if kind not in kinds]
    stopped = {(row["started"], row["command"]) for row in rows if row["state"] != FINISHED}
    notes = [f"No finished run yet of: {', '.join(missing)}.", ""] if missing else []
    notes += [f"Not finished, and left out of means: {count(len(stopped), 'run')} of the file.", ""] if stopped else []
    return [*notes, *provenance(rows)]


def said(experiment: str, published: Published) -> list[str]:
    """The paper's numbers of an experiment with their places, as a list."""
    numbers = published.of(experiment)
    lines = [f"- paper, {n.method}: {n.metric.replace('_', ' ')} {n.text} ({n.place})" for n in numbers]
    return [*lines, ""] if lines else []


def as_commanded(found: Iterable[Group]) -> list[Group]:
    """Of every kind the groups of the experiment's own command, or all where there is none: of parts, say."""
    everything = list(found)
    own = {group.kind for group in everything if not group.values["settings"]}
    return [group for group in everything if group.kind not in own or not group.values["settings"]]


def by_kind(found: Iterable[Group], words: Callable[[Group], str]) -> tuple[str, str, str]:
    """Cells for Concrete, p = 0 and fixed p; several of a kind with what tells them apart."""
    found = list(found)
    cells = []
    for kind in KIND_WORDS:
        own = [group for group in found if group.kind == kind]
        texts = [words(group) if len(own) == 1 else f"{_label(group)}: {words(group)}" for group in own]
        cells.append("; ".join(texts) or NOT_RUN)
    return cells[0], cells[1], cells[2]


def repeats(found: Iterable[Group]) -> str:
    """Numbers of repeats, as a range where they differ."""
    return span(len(group.repeats) for group in found)


def converged(found: Iterable[Group]) -> str:
    """Of all rows of these groups."""
    return converged_words(row for group in found for row in group.rows)


def _label(group: Group) -> str:
    p = f"p = {group.values['p']}" if group.kind == "fixed" else ""
    return ", ".join(filter(None, [p, code(group.values["settings"])])) or "as the command"


def _forms(command: str) -> set[tuple[str, ...]]:
    return {_form(one) for one in expanded(command)}


def _form(command: str) -> tuple[str, ...]:
    """Words of a command in any order, but for those that say where it works and what it leaves behind."""
    kept = words(portable(of_any_seed(command)))
    return tuple(sorted(word for word in kept if not re.match(r"(logger|threads)[=.]", word)))


def _listed(commands: Sequence[str]) -> str:
    *first, last = map(code, commands)
    return f"{', '.join(first)} and {last}" if first else last
