"""The section on masks at test time: smooth ones as in training, or such as drop or keep."""

from __future__ import annotations

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING

from .collect import Row
from .parts import NOT_RUN, Part, to_be_made
from .plan import commands_of
from .sheets import MASKS
from .store import in_order
from .tables import Group, code, provenance, score_words, table, title

TITLE = "Beyond the paper: Concrete or Bernoulli masks at test time"
WHAT = "NLL with Concrete masks, with Bernoulli masks; difference of pairs"
CONCRETE, BERNOULLI = "concrete", "bernoulli"
BOTH = (CONCRETE, BERNOULLI)
SCORES = ("accuracy", "rmse", "ece", "calibration_rmse")


def masks_part(rows: list[Row]) -> Part:
    """The section."""
    lines = [
        "Training needs smooth masks, which have a gradient; predictions could have either kind. "
        f"{to_be_made(commands_of(MASKS.name), MASKS.name, bool(rows))}",
        "",
    ]
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], (WHAT, MISSING, NOT_RUN, "", "", "", ""))
    lines[0] += " Differences are of the same run: Bernoulli less Concrete, so that more than 0 speaks for Concrete."
    found = _groups(rows)
    header = ["experiment", "settings", "data", "samples"]
    header += ["NLL, Concrete masks", "NLL, Bernoulli masks", "difference", "spread of one evaluation"]
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
                    score_words(difference(own), 5),
                    score_words(_spread(own), 5),
                    *(score_words(masks[mask].score(name)) for name in SCORES for mask in BOTH),
                    str(len(masks[CONCRETE].rows)),
                ]
            )
    lines += table([*header, "seeds and splits"], body)
    return Part([*lines, *provenance(rows)], _short(found))


def difference(rows: list[Row]) -> Summary | None:
    """NLL with Bernoulli masks less that with Concrete masks, of the same run and number of samples."""
    keys = ("seed", "split", "samples")
    first, second = (
        {tuple(row[k] for k in keys): finite(row["nll"]) for row in rows if row["mask"] == mask} for mask in BOTH
    )
    pairs = ((value, second.get(key)) for key, value in first.items())
    return summarise(b - a for a, b in pairs if a is not None and b is not None)


def _spread(rows: list[Row]) -> Summary | None:
    """Standard deviation over repeats of one evaluation, a mean over runs and masks: smaller differences are chance."""
    found = summarise(finite(row["nll_std"]) for row in rows)
    return Summary(found.mean, None, found.count, found.low, found.high) if found is not None else None


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
        cells.append(f"{label}{nll}; {score_words(difference(own), 5)}")
        counts.append(str(len(scores[0].rows)))
    return (WHAT, MISSING, "; ".join(cells), MISSING, MISSING, ", ".join(dict.fromkeys(counts)), "")
