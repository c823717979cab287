"""The section on what a grid search costs: the best fixed p of a grid against one run that learns p."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import MISSING, percent

from .cells import Row
from .figures import Line, chart
from .parts import NOT_RUN, Part, to_be_made
from .plan import commands_of
from .series import colour_of
from .sheets import GRID_COST
from .store import in_order
from .tables import (
    Group,
    code,
    converged_words,
    depth_words,
    differences,
    provenance,
    score_whole,
    score_words,
    span,
    table,
    time_words,
)

TITLE = "The cost of a grid search"
WHAT = (
    "sets where validation NLL is within a standard error of the best p of a grid, or better; share of the grid's time"
)


@dataclass(frozen=True)
class Search:
    """A grid search on one set with one setting, over seeds and splits.

    Args:
        name: of the set.
        settings: what else was changed, as one would type it.
        rows: of its jobs.
    """

    name: str
    settings: str
    rows: tuple[Row, ...]

    def of(self, p: str) -> Group:
        """Rows of a fixed p, or of Concrete dropout for ""."""
        rows = tuple(row for row in self.rows if row["p"] == p)
        return Group({"dropout": "fixed" if p else "concrete", "p": p}, rows)

    @property
    def grid(self) -> list[str]:
        """The fixed p."""
        return sorted({row["p"] for row in self.rows if row["p"]}, key=in_order)

    def nll(self, p: str) -> Summary | None:
        """Over seeds or splits."""
        return self.of(p).score("nll")

    @property
    def best(self) -> str:
        """The fixed p with the lowest mean NLL; "" where there is none."""
        means = {p: mean.mean for p in self.grid if (mean := self.nll(p)) is not None}
        return min(means, key=lambda p: means[p], default="")

    @property
    def difference(self) -> Summary | None:
        """NLL of Concrete less that of the best p: of the same seed and split, whose chance they share."""
        return summarise(differences(self.of(""), self.of(self.best), "nll")) if self.best else None

    def seconds(self, ps: Iterable[str]) -> Summary | None:
        """Time of all jobs of these p together, over the seeds that have all of them."""
        found: dict[str, dict[tuple[str, str], float]] = {}
        wanted = set(ps)
        for row in self.rows:
            # Splits that were trained as one batch share the time of their job.
            if row["p"] in wanted and (value := finite(row["seconds"])) is not None:
                found.setdefault(row["seed"], {})[row["p"], row["started"]] = value
        whole = [jobs for jobs in found.values() if {p for p, _ in jobs} == wanted]
        return summarise(sum(jobs.values()) for jobs in whole)

    @property
    def share(self) -> float | None:
        """Time of the Concrete run as a share of the grid's."""
        own, grid = self.seconds([""]), self.seconds(self.grid)
        return own.mean / grid.mean if own and grid and grid.mean else None

    @property
    def is_close(self) -> bool | None:
        """Whether Concrete is within a standard error of the best p, or better; None where there is no such error."""
        found = self.difference
        return found.mean <= found.se if found is not None and found.se is not None else None


def grid_part(rows: list[Row]) -> Part:
    """The section."""
    lines = [
        "A grid of fixed p needs a run for each, learning p needs one. UCI sets have the settings that "
        "`experiment=uci_table` has for them. "
        f"{to_be_made(commands_of(GRID_COST.name), GRID_COST.name, rows)}",
        "",
    ]
    if not rows:
        return Part([*lines, f"**{NOT_RUN.capitalize()}.**", ""], beyond=(WHAT, NOT_RUN, "", ""))
    lines[0] += (
        " The best p of a grid is the one with the "
        "lowest mean NLL on validation data, on which that mean is seen again: a little too low, for the grid alone. "
        "Differences are of pairs with the same seed and split; times are of whole jobs, for all splits together. Bars "
        "of figures are standard errors."
    )
    found = searches(rows)
    lines += _overview(found)
    figures: dict[str, str] = {}
    for search in found:
        lines += [
            f"### {TITLE}: {search.name}",
            "",
            *([f"With {code(search.settings)}.", ""] if search.settings else []),
        ]
        lines += _by_p(search)
        drawn = _figure(search)
        name = f"{GRID_COST.name}_{search.name}.svg"
        if drawn and name not in figures:  # of several settings of a set the first is drawn
            figures[name] = drawn
            lines += [f"![validation NLL against p, {search.name}](results/{name})", ""]
    return Part([*lines, *provenance(rows)], figures=figures, beyond=_short(found))


def searches(rows: list[Row]) -> list[Search]:
    """Rows by set and settings."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["set"], row["settings"]), []).append(row)
    return [Search(name, settings, tuple(found[name, settings])) for name, settings in sorted(found)]


def _overview(found: list[Search]) -> list[str]:
    header = ["set", "settings", "best fixed p", "its validation NLL", "Concrete's validation NLL"]
    header += ["Concrete less the best", "time of the grid (runs)", "time of the Concrete run", "share of the time"]
    lines = []
    for search in found:
        lines.append(
            [
                search.name,
                code(search.settings),
                search.best or MISSING,
                score_words(search.nll(search.best), 3) if search.best else MISSING,
                score_words(search.nll(""), 3),
                score_words(search.difference, 3),
                f"{_time(search.seconds(search.grid))} ({len(search.grid)})",
                _time(search.seconds([""])),
                percent(search.share) if search.share is not None else MISSING,
            ]
        )
    return table(header, lines)


def _by_p(search: Search) -> list[str]:
    lines = []
    for p in [*search.grid, *([""] if search.of("").rows else [])]:
        group = search.of(p)
        lines.append(
            [
                p or "learned",
                score_words(group.score("nll"), 3),
                score_words(group.score("accuracy")),
                score_words(group.score("rmse")),
                group.size,
                _time(search.seconds([p])),
                score_whole(group.score("steps")),
                depth_words(group),
                converged_words(group.rows),
            ]
        )
    header = ["p", "validation NLL", "accuracy (%)", "RMSE", "seeds or splits", "time of a job", "steps"]
    return table([*header, "learned p by depth", "p converged"], lines)


def _figure(search: Search) -> str:
    """NLL against p, that of Concrete as a level line."""
    means = [(float(p), mean.mean, mean.se or 0.0) for p in search.grid if (mean := search.nll(p)) is not None]
    if len(means) < 2:
        return ""
    points, errors = tuple((p, mean) for p, mean, _ in means), tuple(se for *_, se in means)
    lines = [Line("fixed p", points, colour_of("fixed"), errors=errors, dots=True)]
    own = search.nll("")
    if own is not None:
        ends = tuple((p, own.mean) for p in (means[0][0], means[-1][0]))
        lines.append(Line("Concrete", ends, colour_of("concrete"), errors=(own.se or 0.0,) * 2))
    return chart(f"Validation NLL, {search.name}", "p", "NLL", lines)


def _short(found: list[Search]) -> tuple[str, ...]:
    told = [search.is_close for search in found if search.is_close is not None]
    shares = summarise(search.share for search in found)
    texts = [f"{sum(told)} of {len(told)}"] if told else []
    texts += [f"too few seeds to tell: {len(found) - len(told)}"] if len(told) < len(found) else []
    texts += [percent(shares.mean)] if shares else []
    learned = [search.of("") for search in found]
    rows = [row for group in learned for row in group.rows]
    return (WHAT, "; ".join(texts), span(len(group.repeats) for group in learned), converged_words(rows))


def _time(summary: Summary | None) -> str:
    return time_words(summary.mean) if summary is not None else MISSING
