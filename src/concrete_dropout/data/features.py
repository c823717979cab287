"""States of a system as policies and models see them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Features:
    """Angles as sine and cosine, so that a whole turn changes nothing; other components as they are.

    Attributes:
        size: S, components of a state.
        angles: which of them are angles.

    >>> Features(size=4, angles=(2,))(torch.tensor([1.0, 2.0, 0.0, 3.0]))
    tensor([1., 2., 3., 0., 1.])
    """

    size: int
    angles: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 <= angle < self.size for angle in self.angles):
            raise ValueError(f"env.angles={list(self.angles)} must be among the components 0 to {self.size - 1}")

    @property
    def number(self) -> int:
        """D: the other components, then sines, then cosines."""
        return self.size + len(self.angles)

    def __call__(self, states: Tensor) -> Tensor:
        """(..., S) -> (..., D)."""
        parts = states.unbind(-1)
        angles = [parts[i] for i in self.angles]
        straight = [part for i, part in enumerate(parts) if i not in self.angles]
        return torch.stack([*straight, *(a.sin() for a in angles), *(a.cos() for a in angles)], dim=-1)
