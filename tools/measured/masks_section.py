"""The section on masks at test time: smooth ones as in training, or such as drop or keep."""

from __future__ import annotations

import math
from dataclasses import replace

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise

from .cells import Row
from .parts import NOT_RUN, Part, to_be_made
from .plan import commands_of
from .sheets import MASKS
from .store import in_order
from .tables import Group, code, differences, provenance, score_words, table, title

TITLE = "Beyond the paper: Concrete or Bernoulli masks at test time"
WHAT = "NLL with Concrete masks, with Bernoulli masks; Bernoulli less Concrete, of the same runs"
CONCRETE, BERNOULLI = "concrete", "bernoulli"
BOTH = (CONCRETE, BERNOULLI)
SCORES = ("accuracy", "rmse", "ece", "calibration_rmse")


def masks_part(rows: list[Row]) -> Part:
    """The section."""
    lines = [
        "Training needs smooth masks, which have a gradient; predictions could have either kind. "
        f"{to_be_made(commands_of(MASKS.name), MASKS.name, rows)}",
        "",
    ]
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], beyond=(WHAT, NOT_RUN, "", ""))
    lines[0] += (
        " Differences are of the same run: Bernoulli less Concrete, so that more than 0 speaks for Concrete. Their "
        "errors are those over seeds, or those over repeats of an evaluation where these are larger."
    )
    found = _groups(rows)
    header = ["experiment", "settings", "data", "samples"]
    header += ["NLL, Concrete masks", "NLL, Bernoulli masks", "difference", "repeats"]
    header += [f"{title(name)}, {mask}" for name in SCORES for mask in BOTH]
    body = []
    for group in found:
        for samples in sorted({row["samples"] for row in group.rows}, key=in_order):
            own = [row for row in group.rows if row["samples"] == samples]
            masks = {mask: Group(group.values, tuple(r for r in own if r["mask"] == mask)) for mask in BOTH}
            if not all(part.rows for part in masks.values()):
                continue
            body.append(
                [
                    group.values["set"] or group.values["experiment"],
                    code(group.values["settings"]),
                    group.values["part"],
                    samples,
                    *(score_words(masks[mask].score("nll"), 4) for mask in BOTH),
                    score_words(difference(*masks.values()), 5),
                    ", ".join(sorted({row["repeats"] for row in own}, key=in_order)),
                    *(score_words(masks[mask].score(name)) for name in SCORES for mask in BOTH),
                    masks[CONCRETE].size,
                ]
            )
    lines += table([*header, "seeds or splits"], body)
    return Part([*lines, *provenance(rows)], beyond=_short(found))


def difference(concrete: Group, bernoulli: Group) -> Summary | None:
    """NLL with Bernoulli masks less that with Concrete masks, of the same runs; with the larger of two errors."""
    found = summarise(differences(bernoulli, concrete, "nll"))
    if found is None:
        return None
    # Seeds differ by chance of the evaluation too, but few of them may happen to agree.
    errors = [error for error in (found.se, _chance(concrete, bernoulli)) if error is not None]
    return replace(found, se=max(errors, default=None))


def _chance(*masks: Group) -> float | None:
    """The error of a difference of means over runs that the masks drawn for them make; None where it is not known."""
    squares = []
    for group in masks:
        for row in group.rows:
            spread, repeats = finite(row["nll_std"]), finite(row["repeats"])
            if spread is None or not repeats or repeats < 2:
                return None
            squares.append(spread**2 / repeats / len(group.rows) ** 2)
    return math.sqrt(math.fsum(squares))


def _groups(rows: list[Row]) -> list[Group]:
    columns = ("experiment", "set", "settings", "part")
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return [Group(dict(zip(columns, key, strict=True)), tuple(found[key])) for key in sorted(found)]


def _short(found: list[Group]) -> tuple[str, ...]:
    """Of the largest number of samples."""
    cells, counts = [], []
    for group in found:
        most = max((row["samples"] for row in group.rows if row["mask"] == BERNOULLI), key=in_order, default="")
        own = [row for row in group.rows if row["samples"] == most]
        scores = [Group({}, tuple(r for r in own if r["mask"] == mask)) for mask in BOTH]
        label = f"{group.values['set'] or group.values['experiment']}: " if len(found) > 1 else ""
        nll = ", ".join(score_words(part.score("nll"), 4) for part in scores)
        cells.append(f"{label}{nll}; {score_words(difference(*scores), 5)}")
        counts.append(scores[0].size)
    return (WHAT, "; ".join(cells), ", ".join(dict.fromkeys(counts)), "")
