"""What was tried: how much in a section, and on a page of its own the settings with their validation scores."""

from __future__ import annotations

from concrete_dropout.report.record import finite
from concrete_dropout.report.text import MISSING, count, plus_minus

from .cells import Row
from .parts import NOT_RUN, Part
from .sheets import TUNING
from .store import in_order
from .tables import PERCENT, code, dropout_words, layers_of, learned_words, provenance, table, title

TITLE = "What was tried"
EXAMPLE = "python train.py experiment=uci data.name=SET data.val_fraction=0.2 test=false"
GRID = "replicas.grid={data.split:[0,1],KEY:[VALUES]}"
ADD = "python tools/results.py tried FOLDER"
PAGE = "tried.md"  # beside the CSV files
# Metric -> whether more is better.
SCORES = {"log_likelihood": True, "rmse": False, "accuracy": True}
MOST = 8  # rows of a table that can be compared; the others are in the file
COMPARABLE = ("experiment", "set", "val_fraction", "splits", "seeds")


def tuning_part(rows: list[Row]) -> Part:
    """The section: of every set how many settings, and where they are."""
    lines = [
        "Runs that were made to choose settings, by their scores on validation data, which are a part of the training "
        f"data. One is made by {code(EXAMPLE)} or such, with what is to be tried, or many at once by {code(GRID)} "
        f"beside, and taken by {code(ADD)}.",
        "",
    ]
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""])
    lines[0] += (
        f" [A page of its own](results/{PAGE}) has the settings with their scores, the best first; all of them: "
        f"[{TUNING.name}.csv](results/{TUNING.name}.csv)."
    )
    body = [[name, str(len(own)), str(sum(int(row["models"]) for row in own))] for name, own in _subjects(rows)]
    return Part([*lines, *table(["what", "settings", "trained models"], body)])


def tried_page(rows: list[Row]) -> str:
    """The page of its own; "" where nothing was tried."""
    if not rows:
        return ""
    lines = [
        f"# {TITLE}",
        "",
        "Settings by their scores on validation data, which are a part of the training data. Means are over splits and "
        "seeds, with standard errors. Bold is the best of those that had the same splits, seeds and share of "
        f"validation data. Made by `make results` from [{TUNING.name}.csv]({TUNING.name}.csv); what came of it stands "
        "in the [results](../results.md).",
        "",
    ]
    for name, own in _subjects(rows):
        lines += [f"## {name}", "", *_table(own), *provenance(own)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _subjects(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Name of a set, or of an experiment without sets -> its rows."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["experiment"], row["set"]), []).append(row)
    return [(name or experiment, found[experiment, name]) for experiment, name in sorted(found)]


def _table(rows: list[Row]) -> list[str]:
    shared = set.intersection(*(set(row["settings"].split()) for row in rows)) if len(rows) > 1 else set()
    header = ["dropout", "settings", "validation share", "splits", "seeds", "models"]
    header += [f"validation {title(name)}" for name in SCORES]
    header += ["mean p by depth", "p converged", "steps", "commit", "date"]
    lines, left = [], 0
    for row in (ordered := sorted(rows, key=_order)):
        rivals = [other for other in ordered if all(other[column] == row[column] for column in COMPARABLE)]
        if rivals.index(row) >= MOST and not _best_by(row, rivals):
            left += 1
            continue
        own = " ".join(word for word in row["settings"].split() if word not in shared)
        lines.append(
            [
                dropout_words(row),
                code(own),
                row["val_fraction"],
                row["splits"],
                row["seeds"],
                row["models"],
                *(_score(row, name, rivals) for name in SCORES),
                learned_words(layers_of(row).values()),
                row["converged"],
                row["steps"],
                code(row["commit"]),
                row["started"][:10],
            ]
        )
    made = [f"All of these with {code(' '.join(sorted(shared)))}.", ""] if shared else []
    more = [f"{count(left, 'setting')} of lower likelihood: in the file alone.", ""] if left else []
    return [*made, *table(header, lines), *more]


def _score(row: Row, name: str, rivals: list[Row]) -> str:
    """Mean ± standard error; bold where no rival with the same splits is better."""
    scale = 100.0 if name in PERCENT else 1.0
    value, error = finite(row[name]), finite(row[f"{name}_se"])
    if value is None:
        return MISSING
    shown = plus_minus(scale * value, scale * error if error is not None else None)
    return f"**{shown}**" if name in _best_by(row, rivals) else shown


def _best_by(row: Row, rivals: list[Row]) -> list[str]:
    """The scores by which no rival is better, where there are rivals."""
    best = []
    for name, more in SCORES.items():
        values = [value for rival in rivals if (value := finite(rival[name])) is not None]
        if len(values) > 1 and finite(row[name]) == (max(values) if more else min(values)):
            best.append(name)
    return best


def _order(row: Row) -> tuple[object, ...]:
    """Comparable ones together, the best first."""
    likelihood = finite(row["log_likelihood"])
    score = finite(row["accuracy"]) or 0.0
    return (*(in_order(row[column]) for column in COMPARABLE), -(likelihood or -1e30), -score, row["settings"])
