"""Learn the dropout probabilities of a network on the paper's synthetic data, and show what it does not know.

Examples:
  python train.py                                  Concrete dropout on 1000 points of y = 2x + 8 + N(0, 1)
  python train.py --num-data 10                    few data: p stays near 0.5, epistemic uncertainty is large
  python train.py --dropout fixed --p 0.1          the same network with a fixed p
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from concrete_dropout import kl_divergence, mc_predict, parameter_groups, swap_dropout, swap_report
from concrete_dropout.predictive import gaussian_log_density

BATCH_SIZE = 32
NUM_TEST = 1000


class HeteroscedasticMLP(nn.Module):
    """x (N, 1) -> mean and log variance of y, each (N, 1), with ordinary dropout in front of every layer."""

    def __init__(self, width: int = 1024, depth: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs in (1, *(depth - 1) * (width,)):
            layers += [nn.Dropout(0.1), nn.Linear(inputs, width), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(width, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two heads."""
        mean, log_var = self.layers(x).chunk(2, dim=-1)
        return mean, log_var


def synthetic(num_data: int) -> tuple[Tensor, Tensor]:
    """X ~ N(0, 1), y = 2x + 8 + N(0, 1): section 4.1 of the paper."""
    x = torch.randn(num_data, 1)
    return x, 2 * x + 8 + torch.randn(num_data, 1)


def batches(x: Tensor, y: Tensor, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled batches, epoch after epoch."""
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        if len(order) == 0:
            order = torch.randperm(len(x))
        yield x[order[:BATCH_SIZE]], y[order[:BATCH_SIZE]]
        order = order[BATCH_SIZE:]


def fit(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> None:
    """Minimise mean NLL + KL / N; the learning rate is constant for half of the steps, then falls to 0."""
    optimiser = torch.optim.Adam(parameter_groups(model, lr=1e-3, p_lr=2e-2))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, 2 * (1 - step / steps)))
    model.train()
    for step, (x_batch, y_batch) in enumerate(batches(x, y, steps), start=1):
        mean, log_var = model(x_batch)
        nll = -gaussian_log_density(y_batch, mean, log_var).mean()
        loss = nll + kl_divergence(model) / len(x)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % max(1, steps // 20) == 0 or step == steps:
            print(
                f"\rstep {step}/{steps}   nll {nll.item():7.3f} nats   loss {loss.item():7.3f}",
                end="",
                flush=True,
            )
    print()


def positive(text: str) -> int:
    """An argument of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


def main() -> None:
    """Train, test, and print what was learned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-data", type=positive, default=1000, help="training points (default 1000)")
    parser.add_argument("--dropout", choices=("none", "fixed", "concrete"), default="concrete")
    parser.add_argument("--init-p", type=float, default=0.1, help="initial p of Concrete dropout (default 0.1)")
    parser.add_argument("--p", type=float, default=0.1, help="p of fixed dropout (default 0.1)")
    parser.add_argument("--length-scale", type=float, default=1e-4, help="of the prior (default 1e-4, the paper's)")
    parser.add_argument("--steps", type=positive, default=600, help="optimiser steps (default 600)")
    parser.add_argument("--samples", type=positive, default=100, help="stochastic passes at test time (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    x, y = synthetic(options.num_data)
    model = HeteroscedasticMLP()
    try:
        swap_dropout(
            model,
            options.dropout,
            init_p=options.init_p,
            p=options.p,
            length_scale=options.length_scale,
            example_input=x[:1],
        )
    except ValueError as error:
        parser.error(str(error))
    fit(model, x, y, options.steps)

    x_test, y_test = synthetic(NUM_TEST)
    prediction = mc_predict(model, x_test, "gaussian", options.samples, targets=y_test)
    rmse = (prediction.mean - y_test).square().mean().sqrt()
    assert prediction.log_likelihood is not None
    print(f"\n{swap_report(model)}\n")
    print(f"On {NUM_TEST} test points, with {options.samples} samples (the noise has a standard deviation of 1):")
    print(f"  epistemic std    {prediction.epistemic.mean().sqrt():6.3f}   what the network does not know")
    print(f"  aleatoric std    {prediction.aleatoric.mean().sqrt():6.3f}   what it takes for noise")
    print(f"  RMSE             {rmse:6.3f}")
    print(f"  log-likelihood   {prediction.log_likelihood.mean():6.3f} nats per point", end="")
    print(f"   (the true model has {-0.5 * math.log(2 * math.pi * math.e):.3f})")


if __name__ == "__main__":
    main()
