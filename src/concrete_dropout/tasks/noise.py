"""Noise that all inputs share: the precision tau by variational MAP-EM (paper, appendix "More Results").

With a Gamma(a, b) prior the objective ELBO + log p(tau) has its maximum over tau, for given q, in closed form:

    tau = (N / 2 + a - 1) / (N * msr / 2 + b),      msr = E_q of the mean squared residual

The paper climbs to it by gradient, which is slow, since msr is noisy. Here every training step takes the closed form
with a running mean of msr: a partial E step (one step of the optimiser) and a partial M step in turn.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SHAPE, RATE = 0.1, 0.01  # of the paper's prior
START_BATCHES = 10.0
MAX_CHANGE = 4.0


class NoisePrecision(nn.Module):
    """tau of each output, in standardised units, with all that it is computed from; buffers only, no parameters.

    The squared residuals of training batches, under the masks of training, estimate the expectation under q. Their
    running mean forgets exponentially and is corrected for its short start. It begins with the weight of ten
    batches whose residuals are ``start_variance``, the whole variance of a standardised target: tau starts low, as
    the paper found necessary, and the start is forgotten like any other batch.

    tau is a constant for the gradient of the network: the M step is not taken by gradient.

    The final M step takes the expectation anew, over whole data and several masks, once training is over: the
    paper's CDropout is before it and CDropoutM after it. The running mean leaves it little to do, whereas residuals
    of training data are too small for a network that overfits, and tau would be too large by any factor. Hence:
    it is done when asked for only; it takes validation data where there are some; and it changes tau by a factor
    of 4 (the standard deviation by 2) at the most, in either direction. Training on discards it.

    Args:
        num_outputs: O.
        num_train: N.
        shape: a of the prior.
        rate: b of the prior.
        decay: of the running mean, per batch.
        start_variance: squared residuals to start from.
        min_std: smallest standard deviation of noise that is believed in, in standardised units; it bounds tau.

    >>> noise = NoisePrecision(num_outputs=1, num_train=100)
    >>> for _ in range(2000):
    ...     noise.update(torch.tensor([0.25]))
    >>> noise.tau.item() == pytest.approx((50 + 0.1 - 1) / (50 * 0.25 + 0.01))
    True
    """

    mean_sum: Tensor
    weight: Tensor
    final_tau: Tensor

    def __init__(
        self,
        num_outputs: int,
        num_train: int,
        *,
        shape: float = SHAPE,
        rate: float = RATE,
        decay: float = 0.99,
        start_variance: float = 1.0,
        min_std: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"decay={decay} must lie in [0, 1)")
        if not (shape > 0 and rate > 0 and start_variance > 0):
            raise ValueError(f"shape={shape}, rate={rate} and start_variance={start_variance} must be above 0")
        self.num_train = num_train
        self.shape = shape
        self.rate = rate
        self.decay = decay
        self.min_std = min_std
        start = torch.full((num_outputs,), (1 - decay) * START_BATCHES, dtype=torch.float64)
        self.register_buffer("mean_sum", start * start_variance)  # the running mean times ...
        self.register_buffer("weight", start[0].clone())  # ... its weight, which tends to 1
        self.register_buffer("final_tau", torch.zeros(num_outputs, dtype=torch.float64))  # 0: no final M step

    @property
    def running_tau(self) -> Tensor:
        """Precision from the running mean, (O,) float64: the one that training uses (CDropout)."""
        return self.m_step(self.mean_sum / self.weight, self.num_train)

    @property
    def tau(self) -> Tensor:
        """Precision after the final M step if there was one, else the running one; (O,) float64."""
        return torch.where(self.final_tau > 0, self.final_tau, self.running_tau)

    @property
    def is_final(self) -> bool:
        """Whether there was a final M step."""
        return bool((self.final_tau > 0).all())

    def m_step(self, mean_square: Tensor, num_data: int) -> Tensor:
        """The mode (N/2 + a - 1) / (N msr/2 + b) of tau's posterior, or the largest tau that is allowed."""
        tau = self.numerator(num_data) / (0.5 * num_data * mean_square.double() + self.rate)
        return tau.clamp(max=self.max_tau)

    def numerator(self, num_data: int) -> float:
        """N/2 + a - 1; a for one observation, which leaves tau's posterior without a mode above 0, as for two."""
        return max(num_data / 2 + self.shape - 1, self.shape)

    @property
    def max_tau(self) -> float:
        """The precision of the smallest noise; infinite where there is none."""
        return self.min_std**-2 if self.min_std else math.inf

    @torch.no_grad()
    def update(self, mean_square: Tensor) -> None:
        """A partial M step from a batch's mean squared residuals, (O,), averaged over processes.

        Numbers that overflowed are left out: in fp16 a step with such numbers is skipped by the optimiser as well.
        """
        mean_square = _mean_over_processes(mean_square.double())
        mean_square = torch.where(mean_square.isfinite(), mean_square, self.mean_sum / self.weight)
        self.mean_sum.mul_(self.decay).add_((1 - self.decay) * mean_square)
        self.weight.mul_(self.decay).add_(1 - self.decay)
        self.final_tau.zero_()

    @torch.no_grad()
    def final_m_step(self, mean_square: Tensor, num_data: int) -> bool:
        """The final M step from mean squared residuals, (O,), of ``num_data`` rows; whether the bound held it back."""
        tau, before = self.m_step(mean_square, num_data), self.running_tau
        self.final_tau.copy_(tau.clamp(before / MAX_CHANGE, before * MAX_CHANGE))
        return bool((self.final_tau != tau).any())


def _mean_over_processes(value: Tensor) -> Tensor:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    value = value.clone()
    distributed.all_reduce(value)
    return value / distributed.get_world_size()
