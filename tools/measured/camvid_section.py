"""The sections on CamVid: the paper's five rows, with and without MC, beside ours."""

from __future__ import annotations

from concrete_dropout.report.text import MISSING

from .cells import Row
from .experiments import Experiment
from .parts import NOT_RUN, Part, as_commanded, by_kind, converged, foot, head, repeats
from .published import Number, Published
from .tables import code, comparison, converged_words, dropout_words, groups, score_words, table

PAPER = "camvid"  # both of ours stand beside the same table
SCORES = ("log_likelihood", "log_likelihood_no_mc", "accuracy", "calibration_rmse", "ece", "brier")
MC = "MC"


def camvid_part(experiment: Experiment, rows: list[Row], published: Published) -> Part:
    """The section of the paper's network, or of the small one."""
    found = groups(experiment, rows)
    lines = head(experiment, rows)
    if experiment.name != PAPER:
        lines += ["Another network at half the resolution: its numbers are no reproduction of the paper's.", ""]
    header = ["dropout", "settings", "MC sampling", "paper, mIoU (%)", "ours, mIoU (%)", "seeds", "p converged"]
    table_rows = [line for number in published.of(PAPER) for line in _lines(number, experiment, rows)]
    lines += table(header, table_rows)
    number = published.find(experiment.name, "miou", setting=MC)
    what, paper = "test mIoU (%), with MC where there is dropout", number.text if number is not None else MISSING
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], (what, paper, NOT_RUN, "", "", "", ""))
    lines += ["Other scores on the test images:", "", *comparison(experiment, rows, SCORES), *foot(rows)]
    shown = as_commanded(found)
    cells = by_kind(shown, lambda group: score_words(group.score("miou")))
    return Part(lines, (what, paper, *cells, repeats(shown), converged(shown)))


def _lines(number: Number, experiment: Experiment, rows: list[Row]) -> list[list[str]]:
    """A row of the paper's table with ours; several where ours has several p or settings."""
    own = [group for group in groups(experiment, rows) if group.kind == number.method]
    # Without dropout there is one pass, whose score has the plain name.
    column = "miou" if number.setting == MC or number.method == "none" else "miou_no_mc"
    made = [
        [
            dropout_words(group.values),
            code(group.values["settings"]),
            number.setting,
            number.text,
            score_words(group.score(column)),
            str(len(group.rows)),
            converged_words(group.rows),
        ]
        for group in own
    ]
    return made or [[number.method, "", number.setting, number.text, NOT_RUN, "", ""]]
