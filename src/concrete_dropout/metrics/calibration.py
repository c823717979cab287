"""Calibration of regression: the observed against the expected coverage of central predictive intervals."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

LEVELS: tuple[float, ...] = tuple(level / 100 for level in range(1, 100))


def covered(pit: Tensor, levels: Tensor) -> Tensor:
    """Whether the central interval of each level holds the target, from its probability integral transform u.

    The interval of level c lies between the quantiles (1 - c) / 2 and (1 + c) / 2, so it holds y iff |2 u - 1| <= c.

    Shapes: (...), (L,) -> (..., L).

    >>> covered(torch.tensor([0.5, 0.05]), torch.tensor([0.5, 0.95]))
    tensor([[ True,  True],
            [False,  True]])
    """
    return (2 * pit - 1).abs().unsqueeze(-1) <= levels


def calibration_rmse(expected: Tensor, observed: Tensor) -> Tensor:
    """Root of the mean squared distance of a coverage curve to the diagonal.

    >>> calibration_rmse(torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.5]))
    tensor(0.2500)
    """
    return (observed - expected).square().mean().sqrt()


class IntervalCoverage(Metric):
    """How often central predictive intervals hold the target; ``compute`` gives the frequency at each of ``LEVELS``.

    >>> coverage = IntervalCoverage()
    >>> coverage.update(torch.arange(0.0005, 1, 0.001))  # as if calibrated
    >>> coverage.compute()[[9, 49, 89]]
    tensor([0.1000, 0.5000, 0.9000], dtype=torch.float64)
    """

    full_state_update = False
    counts: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("counts", torch.zeros(len(LEVELS), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, pit: Tensor) -> None:
        """Add probability integral transforms of any shape: each output counts."""
        u = pit.flatten().double()
        levels = torch.tensor(LEVELS, dtype=torch.float64, device=u.device)
        self.counts += covered(u, levels).sum(0)
        self.total += u.numel()

    def compute(self) -> Tensor:
        """Observed coverage, (99,)."""
        return self.counts / self.total
