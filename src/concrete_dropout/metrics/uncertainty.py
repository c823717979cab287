"""How uncertain a regression model is, and of which kind."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class UncertaintyScores(Metric):
    """Standard deviations of each kind, as the root of the mean variance, and sharpness, the mean predictive std.

    Variances add up, standard deviations do not: with the root of the mean variance
    epistemic_std^2 + aleatoric_std^2 = predictive_std^2 holds for the whole set.

    >>> scores = UncertaintyScores()
    >>> scores.update(epistemic=torch.tensor([9.0, 0.0]), aleatoric=torch.tensor([16.0, 1.0]))
    >>> {name: round(value.item(), 3) for name, value in scores.compute().items()}
    {'epistemic_std': 2.121, 'aleatoric_std': 2.915, 'predictive_std': 3.606, 'sharpness': 3.0}
    """

    full_state_update = False
    epistemic: Tensor
    aleatoric: Tensor
    std: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("epistemic", "aleatoric", "std", "values"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, epistemic: Tensor, aleatoric: Tensor) -> None:
        """Add variances, of any shape."""
        epistemic, aleatoric = epistemic.double(), aleatoric.double()
        self.epistemic += epistemic.sum()
        self.aleatoric += aleatoric.sum()
        self.std += (epistemic + aleatoric).sqrt().sum()
        self.values += epistemic.numel()

    def compute(self) -> dict[str, Tensor]:
        """In the unit of the target."""
        return {
            "epistemic_std": (self.epistemic / self.values).sqrt(),
            "aleatoric_std": (self.aleatoric / self.values).sqrt(),
            "predictive_std": ((self.epistemic + self.aleatoric) / self.values).sqrt(),
            "sharpness": self.std / self.values,
        }
