"""The dense block of FC-DenseNet: every layer sees the features of all layers in front of it (Jegou et al., 2016)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from concrete_dropout.models.fused import fused_features

DropoutMode = Literal["channel", "element"]


class DenseLayer(nn.Module):
    """BatchNorm - ReLU - convolution 3x3 - dropout.

    Args:
        channels: of the input, C.
        growth: new features, G.
        dropout: a layer of its own.

    Shapes: (N, C, H, W) -> (N, G, H, W).
    """

    def __init__(self, channels: int, growth: int, dropout: nn.Module) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(self.conv(torch.relu(self.norm(x))))
        return out


class DenseBlock(nn.Module):
    """Layers that each see the block's input and the features of all layers in front of them.

    Args:
        channels: of the input, C.
        num_layers: L.
        growth: G, the features of each layer.
        dropout: p of every dropout.
        mode: "channel" drops whole feature maps, "element" single entries.

    Shapes: (N, C, H, W) -> (N, L G, H, W), the new features. The input may come in parts, several arguments with C
    channels in all: nobody has to concatenate them.

    >>> block = DenseBlock(8, num_layers=3, growth=4, dropout=0.2, mode="channel")
    >>> block(torch.zeros(1, 5, 6, 6), torch.zeros(1, 3, 6, 6)).shape
    torch.Size([1, 12, 6, 6])
    """

    fused = True  # compute with the weights of the layers, without calling them, where that is possible

    def __init__(self, channels: int, num_layers: int, growth: int, dropout: float, mode: DropoutMode) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(channels + i * growth, growth, make_dropout(dropout, mode)) for i in range(num_layers)
        )

    def forward(self, *parts: Tensor, shared: int | None = None) -> Tensor:
        """Give the new features; ``shared`` is the number of a part that is the same in every stochastic pass."""
        new = fused_features(list(self.layers), parts, shared) if self.fused else None
        if new is not None:
            return new
        x = torch.cat(parts, dim=1)
        inputs = x.shape[1]
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x[:, inputs:]


def make_dropout(p: float, mode: DropoutMode) -> nn.Module:
    """An ordinary dropout of whole channels or of single entries."""
    return nn.Dropout2d(p) if mode == "channel" else nn.Dropout(p)
