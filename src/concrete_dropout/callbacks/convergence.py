"""Whether a learned p has settled: its trend over the last fifth of training. Plain numbers, no torch.

A p that is still moving is not a result. The trend is the least-squares slope of p over the last fifth of the steps,
which noise from mini-batches hardly bends; the change is that slope times the length of the window.

A small learning rate, or one that has gone down to 0, makes any change small. So the trend is also compared with the
furthest that the optimiser could have gone: a p that went one way all the time has not arrived anywhere, however short
the way was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

FRACTION = 0.2
MIN_ROWS = 3  # two rows give a slope, but no idea of its noise


@dataclass(frozen=True)
class Criterion:
    """When p counts as converged, and when as saturated.

    Attributes:
        tolerance: largest change of p over the last fifth.
        relative_tolerance: the same as a part of p: 0.01 to 0.025 is no small change. Below ``floor`` p counts as
            ``floor``, because nobody can tell p = 0.001 from p = 0.002 in a network's output.
        floor: see above.
        low: below it, p is saturated: the layer has switched its dropout off.
        high: above it, p is saturated: beyond 0.5 the entropy falls again, and most of the signal is gone.
    """

    tolerance: float = 0.02
    relative_tolerance: float = 0.2
    floor: float = 0.05
    low: float = 1e-3
    high: float = 0.6

    def __post_init__(self) -> None:
        if not (self.tolerance > 0 and self.relative_tolerance > 0):
            raise ValueError(
                f"tolerance={self.tolerance!r} and relative_tolerance={self.relative_tolerance!r} must be above 0"
            )
        if not 0 <= self.low < self.high <= 1:
            raise ValueError(f"low={self.low!r} and high={self.high!r} must be in order and within [0, 1]")

    def largest_change(self, p: float) -> float:
        """What p may change by over the last fifth.

        >>> [round(Criterion().largest_change(p), 3) for p in (0.001, 0.05, 0.08, 0.4)]
        [0.01, 0.01, 0.016, 0.02]
        """
        return min(self.tolerance, self.relative_tolerance * max(p, self.floor))

    def saturated(self, p: float) -> str | None:
        """ "low", "high" or None."""
        if p < self.low:
            return "low"
        return "high" if p > self.high else None

    def __str__(self) -> str:
        return (
            f"A learned p has converged when its trend (least squares) over the last fifth of the steps amounts to a "
            f"change of at most {self.tolerance:g}, and of at most {self.relative_tolerance:.0%} of p (a p below "
            f"{self.floor:g} counts as {self.floor:g}). It has not if it moved one way as fast as its learning rate "
            f"allows, and as much training again would carry it further than {self.tolerance:g}. A learned p is "
            f"saturated below {self.low:g} and above {self.high:g}. A fixed p has nothing to converge."
        )


@dataclass(frozen=True)
class Pace:
    """How far an optimiser with normalised steps (Adam, RMSprop) can carry a logit when every step goes the same way.

    Attributes:
        window: within the last fifth of the steps: the sum of the learning rates there.
        whole: within as many steps as the whole training had, at the full learning rate.
        steps: number of steps in the window.
    """

    window: float
    whole: float
    steps: int

    @property
    def one_way(self) -> float:
        """The part of ``window`` beyond which a move is no random walk any more."""
        return max(0.3, 3 / math.sqrt(max(self.steps, 1)))


@dataclass(frozen=True)
class Convergence:
    """What became of one layer's p.

    Attributes:
        initial: p before the first step.
        final: p after the last.
        change_last_fifth: trend times a fifth of the steps; None when there are too few rows to tell.
        trend_per_1000_steps: slope of p; None likewise.
        converged: see ``Criterion``; False when it cannot be told.
        saturated: "low", "high" or None.
        drift: trend of the logit over the last fifth, as a part of the furthest it could have gone; None if unknown.
    """

    initial: float
    final: float
    change_last_fifth: float | None
    trend_per_1000_steps: float | None
    converged: bool
    saturated: str | None
    drift: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def convergence(
    steps: Sequence[int],
    ps: Sequence[float],
    *,
    learned: bool = True,
    initial: float | None = None,
    criterion: Criterion | None = None,
    pace: Pace | None = None,
) -> Convergence:
    """Judge the history of one layer's p.

    Args:
        steps: increasing; those of the whole run, not of its last part.
        ps: p at these steps.
        learned: a fixed p is always converged and never saturated: it is what the user chose.
        initial: where the history begins later than the run; its first p by default.
        criterion: the thresholds.
        pace: of the optimiser, where it is known.

    >>> result = convergence(range(0, 1001, 100), [0.5 - 0.1 * i / 10 for i in range(11)])
    >>> result.change_last_fifth, result.trend_per_1000_steps, result.converged
    (-0.02, -0.1, True)
    """
    if not ps or len(steps) != len(ps):
        raise ValueError(f"{len(steps)} steps and {len(ps)} values of p: there must be as many, and at least one")
    criterion = criterion or Criterion()
    first, final = ps[0] if initial is None else initial, ps[-1]
    if not learned:
        return Convergence(first, final, 0.0, 0.0, converged=True, saturated=None)
    slope = trend(steps, ps)
    if slope is None:
        return Convergence(first, final, None, None, converged=False, saturated=criterion.saturated(final))
    # Steps are counted from 0 also where the history begins later (a run resumed in a new folder).
    change = slope * FRACTION * steps[-1]
    allowed = criterion.largest_change(final) * (1 + 1e-9)  # a change of exactly the tolerance is within it
    drift = None if pace is None else _drift(steps, ps, pace)
    arrived = pace is None or drift is None or _has_arrived(final, drift, pace, criterion.tolerance)
    return Convergence(
        first, final, change, 1000 * slope, abs(change) <= allowed and arrived, criterion.saturated(final), drift
    )


def _drift(steps: Sequence[int], ps: Sequence[float], pace: Pace) -> float | None:
    """Trend of the logit over the last fifth, as a part of what the optimiser could do at most."""
    if pace.window <= 0 or not all(0 < p < 1 for p in ps):
        return None
    slope = trend(steps, [_logit(p) for p in ps])
    return None if slope is None else slope * FRACTION * steps[-1] / pace.window


def _has_arrived(p: float, drift: float, pace: Pace, tolerance: float) -> bool:
    """Whether p did not go one way, or would not go far in as much training again at the full learning rate."""
    ahead = 1 / (1 + math.exp(-_logit(p) - drift * pace.whole)) - p
    return abs(drift) <= pace.one_way or abs(ahead) <= tolerance


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def trend(steps: Sequence[int], ps: Sequence[float]) -> float | None:
    """Least-squares slope of p per step over the last fifth, or over the last three rows where that holds fewer.

    None when there is one row only, or where p is not finite.
    """
    start = (1 - FRACTION) * steps[-1]
    inside = max(sum(step >= start for step in steps), MIN_ROWS)
    xs, ys = list(steps)[-inside:], list(ps)[-inside:]
    if len(xs) < 2 or not all(map(math.isfinite, ys)):
        return None
    x_mean, y_mean = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    squares = math.fsum((x - x_mean) ** 2 for x in xs)
    return math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / squares
