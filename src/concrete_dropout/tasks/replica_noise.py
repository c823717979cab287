"""The noise precisions of R replicas, kept together; the formulas are those of ``NoisePrecision``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from concrete_dropout.tasks.noise import NoisePrecision


class StackedNoise(nn.Module):
    """tau of each replica and output, (R, O) in float64, with all that it is computed from.

    Args:
        noises: of the replicas. ``write_back`` and ``read`` copy between them and this one.

    >>> stack = StackedNoise([NoisePrecision(1, num_train=100), NoisePrecision(1, num_train=10)])
    >>> stack.running_tau.shape
    torch.Size([2, 1])
    """

    mean_sum: Tensor  # (R, O)
    weight: Tensor  # (R, 1)
    final_tau: Tensor  # (R, O)
    numerator: Tensor  # (R, 1)
    half_num_train: Tensor  # (R, 1)
    rate: Tensor  # (R, 1)
    decay: Tensor  # (R, 1)
    max_tau: Tensor  # (R, 1), infinite where no smallest noise is set

    def __init__(self, noises: Sequence[NoisePrecision]) -> None:
        super().__init__()
        self._noises = tuple(noises)  # in a tuple: they belong to their tasks
        for name, (values, _) in self._states().items():
            self.register_buffer(name, values)
        constants = {
            "numerator": [noise.numerator(noise.num_train) for noise in noises],
            "half_num_train": [noise.num_train / 2 for noise in noises],
            "rate": [noise.rate for noise in noises],
            "decay": [noise.decay for noise in noises],
            "max_tau": [noise.max_tau for noise in noises],
        }
        for name, numbers in constants.items():
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float64).unsqueeze(1), persistent=False)

    @property
    def running_tau(self) -> Tensor:
        """Precision from the running mean of the squared residuals: the one that training uses."""
        tau = self.numerator / (self.half_num_train * self.mean_sum / self.weight + self.rate)
        return torch.minimum(tau, self.max_tau)

    @torch.no_grad()
    def update(self, mean_square: Tensor) -> None:
        """A partial M step from a batch's mean squared residuals, (R, O)."""
        mean_square = mean_square.double()
        mean_square = torch.where(mean_square.isfinite(), mean_square, self.mean_sum / self.weight)
        self.mean_sum.mul_(self.decay).add_((1 - self.decay) * mean_square)
        self.weight.mul_(self.decay).add_(1 - self.decay)
        self.final_tau.zero_()

    @torch.no_grad()
    def write_back(self) -> None:
        """Copy the state into the replicas' own."""
        for name, (_, originals) in self._states().items():
            for value, original in zip(self.get_buffer(name), originals, strict=True):
                original.copy_(value.view(original.shape))

    @torch.no_grad()
    def read(self) -> None:
        """Copy the replicas' own state, after a final M step say."""
        for name, (values, _) in self._states().items():
            self.get_buffer(name).copy_(values)

    def _states(self) -> dict[str, tuple[Tensor, list[Tensor]]]:
        """{name: (R, ...) as the replicas have it, their buffers}."""
        found = {
            name: [noise.get_buffer(name) for noise in self._noises] for name in ("mean_sum", "weight", "final_tau")
        }
        return {name: (torch.stack([b.reshape(-1) for b in buffers]), buffers) for name, buffers in found.items()}
