"""What only sweeps ask: does p forget where it started, and what does one Concrete run cost against a grid of p?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from concrete_dropout.report.comparison import Comparison
from concrete_dropout.report.comparison_sections import Builder
from concrete_dropout.report.components import Section, paragraph, table
from concrete_dropout.report.html import join, tag
from concrete_dropout.report.study_record import Member
from concrete_dropout.report.text import count, number, probability, whole

INITIAL, KIND, P = "dropout.init_p", "dropout.kind", "dropout.p"
GRID_VS_CONCRETE = "grid_vs_concrete"
CLOSE = 0.02  # the tolerance of convergence: runs that end nearer than this have ended at the same p


def sweep_sections(found: Comparison) -> list[Builder]:
    """Builders of those sections that a study has the runs for."""
    made: list[Builder] = []
    if found.study.kind == GRID_VS_CONCRETE:
        made.append((partial(cost, found), "cost", "A grid of p against one Concrete run"))
    if any(factor.key == INITIAL for factor in found.factors) and found.layer_names:
        made.append((partial(spread, found), "spread", "Does p depend on where it started?"))
    return made


def spread(found: Comparison) -> Section:
    """The spread of every layer's p at the end over all initial values."""
    learned = [group for group in found.groups if group.learned]
    rows = []
    for layer in found.layer_names:
        ends = [(p, converged) for group in learned for p, converged in group.probabilities(layer)]
        settled = [p for p, converged in ends if converged is not False]
        reach = max(settled) - min(settled) if settled else None
        verdict = "–" if reach is None or len(settled) < 2 else ("no" if reach < CLOSE else "yes")
        low, high = (probability(min(settled)), probability(max(settled))) if settled else ("–", "–")
        shown = tag("span", verdict, class_="flag") if verdict == "yes" else verdict
        rows.append([tag("code", layer), low, high, probability(reach), shown, f"{len(settled)} of {len(ends)}"])
    starts = sorted({float(group.values[INITIAL]) for group in learned if _is_number(group.values.get(INITIAL))})
    words = paragraph(
        f"{count(len(learned), 'initial value')} of p"
        + (f", from {probability(starts[0])} to {probability(starts[-1])}." if starts else ".")
        + " The spread is that of the p that had converged; others are on their way and are left out."
    )
    header = ["Layer", "Lowest p", "Highest p", "Spread", f"More than {CLOSE}", "Converged"]
    listing = table(header, rows, "p at the end of training, over all initial values", numeric=(1, 2, 3))
    return Section("spread", "Does p depend on where it started?", join([words, listing]))


def cost(found: Comparison) -> Section:
    """Time, steps and validation NLL of the grid as a whole and of the Concrete run."""
    grid = [member for group in found.groups if group.values.get(KIND) == "fixed" for member in group.done]
    concrete = [member for group in found.groups if group.values.get(KIND) == "concrete" for member in group.done]
    best = min(grid, key=lambda member: _nll(member) or float("inf"), default=None)
    rows = [
        _row(f"fixed p, {count(len(grid), 'run')}", grid, best),
        _row("Concrete", concrete, concrete[0] if concrete else None),
    ]
    header = ["", "Seconds", "Steps", "Validation NLL", "p"]
    words = paragraph(
        "A grid search trains once for every p that it tries, and has one p for all layers. Its cost is that of all of "
        "its runs, its result that of the best one by validation NLL. Concrete dropout learns p for each layer at once."
    )
    listing = table(header, rows, "What the search cost, and what it found", numeric=(1, 2, 3))
    return Section("cost", "A grid of p against one Concrete run", join([words, listing]))


def seconds(members: Sequence[Member]) -> float | None:
    """The time that runs took together; None where one of them does not say."""
    total = 0.0
    for member in members:
        run = member.record.run if member.record is not None else {}
        try:
            taken = (datetime.fromisoformat(run["ended"]) - datetime.fromisoformat(run["started"])).total_seconds()
        except (KeyError, TypeError, ValueError):
            return None
        if taken < 0:  # the clock was put back
            return None
        total += taken
    return total


def _row(name: str, members: Sequence[Member], best: Member | None) -> list[object]:
    steps = sum(member.record.step or 0 for member in members if member.record is not None)
    p = "–" if best is None else probability(best.values.get(P)) if P in best.values else "learned"
    taken = seconds(members)
    return [name, "–" if taken is None else f"{taken:.0f}", whole(steps), number(best and _nll(best), 4), p]


def _nll(member: Member) -> float | None:
    return member.record.metric("val", "nll") if member.record is not None else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
