"""The fully connected network of the paper's regression and MNIST experiments, also with a linear path beside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with ReLU between them and dropout in front of each, the first one too.

    The dropouts are ordinary ``nn.Dropout``: ``swap_dropout`` decides what becomes of them. Their names are
    ``layers.0``, ``layers.3``, ...; that of the Linear layer behind each is one higher.

    Args:
        num_inputs: D.
        num_outputs: O; twice the number of targets under a ``GaussianHead``.
        hidden: widths of the hidden layers; none makes a linear model.
        dropout: p of every dropout, until the swap changes it.

    Shapes: (rows, D) -> (rows, O); inputs of more axes, such as images, are flattened to D numbers per row.

    >>> MLP(num_inputs=3, num_outputs=1, hidden=(8,)).layers
    Sequential(
      (0): Dropout(p=0.1, inplace=False)
      (1): Linear(in_features=3, out_features=8, bias=True)
      (2): ReLU()
      (3): Dropout(p=0.1, inplace=False)
      (4): Linear(in_features=8, out_features=1, bias=True)
    )
    """

    def __init__(
        self, num_inputs: int, num_outputs: int, hidden: Sequence[int] = (50, 50), dropout: float = 0.1
    ) -> None:
        super().__init__()
        widths = [num_inputs, *hidden, num_outputs]
        if any(width < 1 for width in widths):
            raise ValueError(f"an MLP needs widths of at least 1, got {' -> '.join(map(str, widths))}")
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Dropout(dropout), nn.Linear(fan_in, fan_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])  # no ReLU behind the last one

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x.flatten(1))
        return out


class SkipMLP(nn.Module):
    """An MLP and a linear map of its inputs, added up; nothing is dropped on the linear path.

    Dropout adds a variance that grows with all that a hidden layer has to carry. What is linear in the inputs, most of
    a small step of a mechanical system, is then left to a path that has none, and the network does the rest. The
    linear path has no prior.

    Args:
        num_inputs: D.
        num_outputs: O.
        hidden: widths of the hidden layers of the MLP.
        dropout: p of every dropout of the MLP, until the swap changes it.

    Shapes: (rows, D) -> (rows, O).

    >>> SkipMLP(num_inputs=3, num_outputs=1, hidden=(8,)).skip
    Linear(in_features=3, out_features=1, bias=True)
    """

    def __init__(
        self, num_inputs: int, num_outputs: int, hidden: Sequence[int] = (50, 50), dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.network = MLP(num_inputs, num_outputs, hidden, dropout)
        self.skip = nn.Linear(num_inputs, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        out: Tensor = self.network(x) + self.skip(x)
        return out
