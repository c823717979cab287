"""Masks for sampling, each from a random stream of its own.

The mask of (sample, layer, call, block of rows) depends on those and the seed alone. So it does not matter how
samples and rows are cut into batches: the same seed gives the same masks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kinds import is_channelwise
from concrete_dropout.dropout.layers import _ConcreteDropoutNd
from concrete_dropout.dropout.noise import bounded, compute_dtype, open_interval_margin, random_bits_, soft_drop_

Mask = Literal["concrete", "bernoulli"]
MASKS: tuple[str, ...] = get_args(Mask)
BLOCK_ELEMENTS = 1 << 16
MAX_BLOCK_ROWS = 256


def block_rows(x: Tensor) -> int:
    """How many rows of the model's input share a stream: a function of its shape alone."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // max(1, math.prod(x.shape[1:]))))


def stream_seed(*key: int) -> int:
    """A seed for every tuple of integers."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Block:
    """A stretch of rows that share a stream: ``rows`` of them behind the first ``skip``, of ``length`` in all."""

    index: int
    skip: int
    rows: int
    length: int


def cut_rows(first: int, rows: int, per_block: int) -> list[Block]:
    """Rows first, ..., first + rows - 1 as stretches of blocks of ``per_block`` rows.

    >>> cut_rows(3, 4, per_block=5)
    [Block(index=0, skip=3, rows=2, length=5), Block(index=1, skip=0, rows=2, length=5)]
    """
    blocks, end = [], first + rows
    while first < end:
        index, skip = divmod(first, per_block)
        taken = min(per_block - skip, end - first)
        blocks.append(Block(index, skip, taken, per_block))
        first += taken
    return blocks


class MaskStreams:
    """Draws masks for dropout layers.

    Args:
        seed: of all streams.
        mask: "concrete" draws soft masks for Concrete layers, "bernoulli" hard ones; fixed layers have hard ones.
    """

    def __init__(self, seed: int, mask: Mask = "concrete") -> None:
        if mask not in MASKS:
            raise ValueError(f"mask={mask!r} must be one of {', '.join(MASKS)}")
        self.seed = seed
        self.mask = mask
        self._generators: dict[torch.device, torch.Generator] = {}

    def draw(
        self, layer: _DropoutNd, x: Tensor, key: tuple[int, ...], samples: range, blocks: Sequence[Block]
    ) -> Tensor:
        """Masks, scaled by 1 / (1 - p), for several samples.

        Args:
            layer: the dropout.
            x: what it masks, (rows, ...); gives shape, dtype and device.
            key: of the layer's call within a pass.
            samples: indices of the samples.
            blocks: the stretches of mask rows to draw, in order.

        Returns:
            (len(samples), total mask rows, ...) where trailing dimensions are 1 for channel-wise masks.
        """
        trailing = (x.shape[1], *(1 for _ in x.shape[2:])) if is_channelwise(layer) and x.dim() > 1 else x.shape[1:]
        rows, width = sum(block.rows for block in blocks), math.prod(trailing)
        # On the CPU, 32 random bits per entry; elsewhere, and for float64, uniforms.
        bitwise = x.device.type == "cpu" and x.dtype is not torch.float64
        noise = torch.empty(
            (len(samples), rows * width),
            dtype=torch.int32 if bitwise else compute_dtype(x.dtype),
            device=x.device,
        )
        for position, sample in enumerate(samples):
            start = 0
            for block in blocks:
                generator = self._generator(x.device).manual_seed(stream_seed(self.seed, sample, *key, block.index))
                _fill(noise[position, start : start + block.rows * width], block, width, generator)
                start += block.rows * width
        return self._to_mask(layer, noise).to(x.dtype).view(len(samples), rows, *trailing)

    def _to_mask(self, layer: _DropoutNd, noise: Tensor) -> Tensor:
        """(1 - z) / (1 - p), where z = sigmoid((logit p + logit u) / t), or whether that is above one half."""
        if isinstance(layer, _ConcreteDropoutNd) and self.mask == "concrete":
            logit, t = bounded(layer.p_logit.detach().double().item()), layer.temperature
            if noise.dtype is torch.int32:
                z, scratch = torch.empty(2, *noise.shape, dtype=torch.float32)
                soft_drop_(z, noise, scratch, logit, t)
            else:
                z = noise.logit_(eps=open_interval_margin(noise.dtype)).add_(logit).div_(t).sigmoid_()
            return z.neg_().add_(1).mul_(1 + math.exp(logit))
        p = layer.p
        kept = noise <= ((0.5 - p) * 2**32 if noise.dtype is torch.int32 else 1 - p)  # u = 1/2 + bits / 2^32
        return kept.to(compute_dtype(noise.dtype)).mul_(1 / (1 - p) if p < 1 else 0.0)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device)
        return self._generators[device]


def _fill(out: Tensor, block: Block, width: int, generator: torch.Generator) -> None:
    """Random bits (int32) or uniforms of the rows of a block, into a flat tensor."""
    start, stop = block.skip * width, (block.skip + block.rows) * width
    if out.dtype is torch.int32:  # a serial stream: what comes later need not be drawn
        out.copy_(random_bits_(torch.empty((stop + 1) // 2, dtype=torch.int64), generator)[start:stop])
    else:
        out.copy_(out.new_empty(block.length * width).uniform_(generator=generator)[start:stop])
