"""What a section of the page is made of: its text, its figures, its line in the short version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from concrete_dropout.report.text import MISSING, count

from .collect import FINISHED, Row
from .experiments import Experiment
from .published import Published
from .tables import Group, code, converged_words, provenance

NOT_RUN = "not run yet"
KIND_WORDS = {"concrete": "Concrete", "none": "p = 0", "fixed": "fixed p"}
SHORT = ("experiment", "what", "paper", "Concrete", "p = 0", "fixed p", "seeds or splits", "p converged")


@dataclass(frozen=True)
class Part:
    """One experiment on the page.

    Args:
        lines: Markdown below its heading.
        short: what the short version says: what is measured, the paper, ours by kind, number of repeats, converged;
            nothing for a section without a line there.
        figures: name of a file -> SVG.
    """

    lines: list[str]
    short: tuple[str, ...]
    figures: dict[str, str] = field(default_factory=dict)


def head(experiment: Experiment, rows: list[Row]) -> list[str]:
    """Where it stands in the paper, the commands, and the file of its rows."""
    lines = [f"The paper's {experiment.place}. {'Made' if rows else 'To be made'} by {code(experiment.command)}."]
    if experiment.controls:
        lines[0] += f" Controls: {' and '.join(map(code, experiment.controls))}."
    if experiment.more:
        lines[0] += f" Other figures: {' and '.join(map(code, experiment.more))}."
    if rows:
        lines[0] += f" Every run: [{experiment.name}.csv](results/{experiment.name}.csv)."
    return [*lines, ""]


def to_be_made(commands: Iterable[str], name: str, has_rows: bool, has_file: bool = True) -> str:
    """The commands behind a section that is no experiment of the paper's, all by one, and the file of its rows."""
    made = f"{'Made' if has_rows else 'To be made'} by {', '.join(map(code, commands))}"
    made += f"; {code(f'python tools/results.py run {name}')} runs all that it takes."
    return f"{made} Every run: [{name}.csv](results/{name}.csv)." if has_rows and has_file else made


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


def by_kind(found: Iterable[Group], words: Callable[[Group], str]) -> tuple[str, str, str]:
    """Cells for Concrete, p = 0 and fixed p; several of a kind with what tells them apart."""
    cells = []
    for kind in KIND_WORDS:
        own = [group for group in found if group.kind == kind]
        texts = [words(group) if len(own) == 1 else f"{_label(group)}: {words(group)}" for group in own]
        cells.append("; ".join(texts) or NOT_RUN)
    return cells[0], cells[1], cells[2]


def repeats(found: Iterable[Group]) -> str:
    """Numbers of repeats, as a range where they differ."""
    counts = sorted({len(group.rows) for group in found})
    return MISSING if not counts else str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def converged(found: Iterable[Group]) -> str:
    """Of all rows of these groups."""
    return converged_words(row for group in found for row in group.rows)


def _label(group: Group) -> str:
    p = f"p = {group.values['p']}" if group.kind == "fixed" else ""
    return ", ".join(filter(None, [p, code(group.values["settings"])])) or "as the command"
