"""Differentiable rewards of known environments, as functions of the state after an action."""

from __future__ import annotations

import torch
from torch import Tensor


def pendulum(states: Tensor) -> Tensor:
    """Of gymnasium's Pendulum-v1, without the small price of its action: -(angle^2 + 0.1 spin^2).

    Shapes: states (..., 3), cosine and sine of the angle from upright, and its speed -> (...).

    >>> pendulum(torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 2.0]]))
    tensor([-0.0000, -0.4000])
    """
    cos, sin, spin = states.unbind(-1)
    # In the model cos and sin need not lie on the circle, and at 0, 0 an angle has no gradient.
    angle = torch.atan2(sin, torch.where((cos == 0) & (sin == 0), torch.full_like(cos, 1e-6), cos))
    return -(angle.square() + 0.1 * spin.square())
