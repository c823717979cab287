"""FC-DenseNet, the network of the paper's CamVid experiment (Jegou et al., 2016: "The One Hundred Layers Tiramisu").

    stem -> [block -> transition down] x D -> bottleneck -> [transition up, skip -> block] x D -> head

Dense blocks on the way down hand on their input and their new features. The bottleneck and those on the way up hand on
their new features alone, or channels would pile up from level to level; the last one keeps its input again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from concrete_dropout.models.checkpointing import checkpointed
from concrete_dropout.models.dense_block import DenseBlock, DropoutMode, make_dropout
from concrete_dropout.models.fused import fits, fused_features
from concrete_dropout.models.fused_upsampling import upsample

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "56": {"blocks": (4,) * 11, "growth": 12},
    "67": {"blocks": (5,) * 11, "growth": 16},
    "103": {"blocks": (4, 5, 7, 10, 12, 15, 12, 10, 7, 5, 4), "growth": 16},
    "small": {"blocks": (3,) * 9, "growth": 8, "first_filters": 24},
})  # fmt: skip


class FCDenseNet(nn.Module):
    """Logits for every pixel of an image.

    The dropouts are ordinary torch modules, one behind each convolution but the first and the last and the
    transposed ones (``down.0.block.layers.1.dropout``, ``down.0.transition.dropout``, ...): ``swap_dropout`` decides
    what becomes of them.

    Args:
        in_channels: of the image.
        num_classes: logits per pixel.
        blocks: layers of each dense block: D on the way down, the bottleneck, D on the way up.
        growth: features that each layer adds.
        first_filters: channels of the stem.
        dropout: p of every dropout, until the swap changes it.
        dropout_mode: "channel" drops whole feature maps, "element" single entries, as in the original.
        checkpoint_blocks: keep no more than the inputs of dense blocks for the backward pass, and compute the blocks
            again there: less memory, more time.

    Shapes: (N, in_channels, H, W) -> (N, num_classes, H, W), for any H and W of at least 2^D.

    >>> net = FCDenseNet(in_channels=3, num_classes=11, **PRESETS["small"])
    >>> net(torch.zeros(1, 3, 65, 93)).shape, sum(parameter.numel() for parameter in net.parameters())
    (torch.Size([1, 11, 65, 93]), 246707)
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        blocks: Sequence[int],
        growth: int,
        first_filters: int = 48,
        dropout: float = 0.2,
        dropout_mode: DropoutMode = "channel",
        checkpoint_blocks: bool = False,
    ) -> None:
        super().__init__()
        _check(blocks, growth, first_filters)
        self.checkpoint_blocks = checkpoint_blocks
        depth = len(blocks) // 2
        block = partial(DenseBlock, growth=growth, dropout=dropout, mode=dropout_mode)
        self.stem = nn.Conv2d(in_channels, first_filters, 3, padding=1)
        self.down, channels, skips = nn.ModuleList(), first_filters, []
        for num_layers in blocks[:depth]:
            level = nn.ModuleDict({"block": block(channels, num_layers)})
            channels += num_layers * growth
            level["transition"] = TransitionDown(channels, make_dropout(dropout, dropout_mode))
            self.down.append(level)
            skips.append(channels)
        self.bottleneck = block(channels, blocks[depth])
        self.up = nn.ModuleList()
        for below, num_layers in pairwise(blocks[depth:]):
            channels = below * growth + skips.pop()
            transition = TransitionUp(below * growth)
            self.up.append(nn.ModuleDict({"transition": transition, "block": block(channels, num_layers)}))
        self.head = Head(channels + blocks[-1] * growth, num_classes)
        self.apply(_he_uniform)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cpu:
            x = x.contiguous(memory_format=torch.channels_last)  # the faster format there
        # What a concatenation would join is kept in parts: (stem, new features), ... The stem is the same in every
        # stochastic pass.
        parts: tuple[Tensor, ...] = (self.stem(x),)
        skips: list[tuple[Tensor, ...]] = []
        for number, level in enumerate(self.down):
            shared = 0 if number == 0 else None
            parts = (*parts, self._through(level.get_submodule("block"), *parts, shared=shared))
            skips.append(parts)
            parts = (level.get_submodule("transition")(*parts, shared=shared),)
        new = self._through(self.bottleneck, *parts)
        for level in self.up:
            skip = skips.pop()
            parts = (level.get_submodule("transition")(new, size=skip[0].shape[-2:]), *skip)
            new = self._through(level.get_submodule("block"), *parts, shared=None if skips else 1)
        out: Tensor = self.head(*parts, new)
        return out

    def _through(self, block: nn.Module, *parts: Tensor, shared: int | None = None) -> Tensor:
        if self.checkpoint_blocks and torch.is_grad_enabled():
            return checkpointed(block, *parts)
        out: Tensor = block(*parts, shared=shared)
        return out


class TransitionDown(nn.Module):
    """BatchNorm - ReLU - convolution 1x1 - dropout - max pooling: (N, C, H, W) -> (N, C, H // 2, W // 2)."""

    fused = True  # as in DenseBlock

    def __init__(self, channels: int, dropout: nn.Module) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 1)
        self.dropout = dropout
        self.pool = nn.MaxPool2d(2)

    def forward(self, *parts: Tensor, shared: int | None = None) -> Tensor:
        y = fused_features([self], parts, shared) if self.fused else None
        if y is None:
            y = self.dropout(self.conv(torch.relu(self.norm(torch.cat(parts, dim=1)))))
        out: Tensor = self.pool(y)
        return out


class TransitionUp(nn.Module):
    """A transposed convolution to about twice the size, cropped to that of the skip connection."""

    fused = True  # as in DenseBlock

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, channels, 3, stride=2)  # to (N, C, 2 h + 1, 2 w + 1)

    def forward(self, x: Tensor, size: Sequence[int]) -> Tensor:
        """(N, C, h, w) -> (N, C, *size), where size is (2 h, 2 w) or larger by one."""
        if self.fused and self.conv.bias is not None and fits(x, {self.conv: nn.ConvTranspose2d}):
            return upsample(x, self.conv.weight, self.conv.bias, size)
        out: Tensor = self.conv(x)[:, :, : size[0], : size[1]]
        return out


class Head(nn.Module):
    """A convolution 1x1 to the classes: (N, C, H, W), in one or several parts, -> (N, num_classes, H, W)."""

    fused = True  # as in DenseBlock

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, num_classes, 1)

    def forward(self, *parts: Tensor) -> Tensor:
        if not (self.fused and fits(parts[0], {self.conv: nn.Conv2d})):
            out: Tensor = self.conv(torch.cat(parts, dim=1))
            return out
        count, _, height, width = parts[0].shape
        weights = self.conv.weight.flatten(1).split([part.shape[1] for part in parts], dim=1)
        logits: Tensor = self.conv.bias  # type: ignore[assignment]
        for part, weight in zip(parts, weights, strict=True):
            logits = torch.addmm(logits, part.permute(0, 2, 3, 1).flatten(0, 2), weight.t())  # (pixels, classes)
        return logits.view(count, height, width, -1).permute(0, 3, 1, 2)


def _check(blocks: Sequence[int], growth: int, first_filters: int) -> None:
    if len(blocks) % 2 == 0 or min(blocks) < 1:
        raise ValueError(
            f"blocks={list(blocks)} must be the layers (at least 1) of an odd number of dense blocks: as many on the "
            "way down as on the way up, and one between"
        )
    if growth < 1 or first_filters < 1:
        raise ValueError(f"growth={growth} and first_filters={first_filters} must be at least 1")


def _he_uniform(module: nn.Module) -> None:
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
