"""Agents: the episodes of a run in order, and what can be read off them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from concrete_dropout.report.record import finite
from concrete_dropout.report.text import MISSING

from .cells import Row
from .experiments import EPISODE
from .store import in_order


@dataclass(frozen=True)
class AgentRun:
    """The episodes of one agent, in order; there is at least one."""

    rows: tuple[Row, ...]

    def value(self, column: str, row: Row | None = None) -> float | None:
        """Of an episode, by default the last."""
        return finite((row or self.rows[-1])[column])

    @property
    def best(self) -> Row:
        """The episode with the highest reward."""
        return max(self.rows, key=lambda row: finite(row["reward"]) or float("-inf"))

    def first_with(self, goal: float | None) -> str:
        """The first episode with that reward."""
        reached = (row[EPISODE] for row in self.rows if goal is not None and (finite(row["reward"]) or 0.0) >= goal)
        return next(reached, MISSING)

    @property
    def honest(self) -> tuple[int, int]:
        """In how many episodes the uncertainty is within a factor of two of the error, and of how many."""
        ratios = [ratio for row in self.rows if (ratio := finite(row["honesty"])) is not None]
        return sum(0.5 <= ratio <= 2 for ratio in ratios), len(ratios)


def agents(rows: Iterable[Row]) -> list[AgentRun]:
    """Rows by run, in the order of seeds; episodes in order."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in ("settings", "dropout", "p", "seed", "started")), []).append(row)
    keys = sorted(found, key=lambda key: [in_order(key[0]), in_order(key[1], "dropout"), *map(in_order, key[2:])])
    return [AgentRun(tuple(sorted(found[key], key=lambda row: in_order(row[EPISODE])))) for key in keys]
