"""Stochastic passes as a user would write them: what ``mc_predict`` is measured against."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd


def plain_loop(model: nn.Module, x: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Mean probabilities and expected entropy: dropout in train mode, the rest in eval mode, probabilities stacked."""
    model.eval()
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.train()
    with torch.no_grad():
        probabilities = torch.stack([torch.softmax(model(x), dim=1) for _ in range(samples)])
        entropy = -(probabilities * torch.log(probabilities + 1e-12)).sum(2)
        return probabilities.mean(0), entropy.mean(0)
