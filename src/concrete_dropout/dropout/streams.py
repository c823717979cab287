"""Masks for sampling, each from a random stream of its own.

The mask of (sample, layer, call, row) depends on those and the seed alone. So it does not matter how samples and rows
are cut into batches: the same seed gives the same masks. Compiled code computes any element of a stream directly
(``native``); torch's generators begin at its start, so that without it rows are cut into blocks with a stream each.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout import native
from concrete_dropout.dropout.kernels import BLOCK, block_workspace
from concrete_dropout.dropout.kinds import is_channelwise, is_concrete
from concrete_dropout.dropout.layers import _ConcreteDropoutNd
from concrete_dropout.dropout.noise import (
    ZERO,
    bounded,
    compute_dtype,
    open_interval_margin,
    soft_drop_,
)

Mask = Literal["concrete", "bernoulli"]
MASKS: tuple[str, ...] = get_args(Mask)
BLOCK_ELEMENTS = 1 << 18
MAX_BLOCK_ROWS = 256


def block_rows(x: Tensor) -> int:
    """How many rows of the model's input share a stream: a function of its shape alone."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // max(1, math.prod(x.shape[1:]))))


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=1024)
def cut_rows(first: int, rows: int, per_block: int) -> tuple[Block, ...]:
    """Rows first, ..., first + rows - 1 as stretches of blocks of ``per_block`` rows.

    >>> cut_rows(3, 4, per_block=5)
    (Block(index=0, skip=3, rows=2, length=5), Block(index=1, skip=0, rows=2, length=5))
    """
    blocks, end = [], first + rows
    while first < end:
        index, skip = divmod(first, per_block)
        taken = min(per_block - skip, end - first)
        blocks.append(Block(index, skip, taken, per_block))
        first += taken
    return tuple(blocks)


class MaskStreams:
    """Draws masks for dropout layers. Soft and hard masks have the same noise, and drop the same elements.

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
        self,
        layer: _DropoutNd,
        x: Tensor,
        key: tuple[int, ...],
        samples: range,
        blocks: Sequence[Block],
        times: Tensor | None = None,
    ) -> Tensor:
        """Masks, scaled by 1 / (1 - p), for several samples.

        Args:
            layer: the dropout.
            x: what it masks, (rows, ...); gives shape, dtype and device.
            key: of the layer's call within a pass.
            samples: indices of the samples.
            blocks: the stretches of mask rows to draw, in order.
            times: of the shape of the result; multiplied with it block by block, while that is in the cache.

        Returns:
            (len(samples), total mask rows, ...) where trailing dimensions are 1 for channel-wise masks.
        """
        trailing = (x.shape[1], *(1 for _ in x.shape[2:])) if is_channelwise(layer) and x.dim() > 1 else x.shape[1:]
        rows, width = sum(block.rows for block in blocks), math.prod(trailing)
        masks = torch.empty((len(samples), rows * width), dtype=compute_dtype(x.dtype), device=x.device)
        factors = None if times is None else times.reshape(masks.shape)
        if masks.is_cpu and masks.dtype is torch.float32 and self._is_native(layer):
            first = (blocks[0].index * blocks[0].length + blocks[0].skip) * width if blocks else 0
            self._fill_natively(masks, factors, layer, key, samples, first)
        else:
            for number, sample in enumerate(samples):
                factor = None if factors is None else factors[number]
                for block, start, out in _pieces(masks[number], blocks, width):
                    generator = self._stream(x.device, sample, *key, block.index)
                    part = None if factor is None else factor[start : start + out.numel()]
                    self._fill(out, layer, block, width, generator, part)
        return masks.to(x.dtype).view(len(samples), rows, *trailing)

    def _soft(self, layer: _DropoutNd) -> _ConcreteDropoutNd | None:
        """The layer if its masks are soft."""
        return cast(_ConcreteDropoutNd, layer) if self.mask == "concrete" and is_concrete(layer) else None

    def _is_native(self, layer: _DropoutNd) -> bool:
        soft = self._soft(layer)
        return native.available() and (soft is None or native.exponent_of(soft.temperature) > 0)

    def masked(
        self, layer: _DropoutNd, x: Tensor, key: tuple[int, ...], samples: range, first_row: int
    ) -> Tensor | None:
        """``x`` (S * rows, ...) times element-wise masks: ``draw`` with the least bookkeeping, where that will do.

        None where it will not: without compiled code for this tensor and layer.
        """
        if not (x.is_cpu and x.dtype is torch.float32 and self._is_native(layer)):
            return None
        if x.is_contiguous():
            out = torch.empty_like(x)
        elif native.is_repeated(x, len(samples)):
            out = torch.empty(x.shape)
        else:
            return None
        first = first_row * (x.numel() // x.shape[0]) if first_row else 0
        self._fill_natively(out, x, layer, key, samples, first)
        return out

    def _fill_natively(
        self,
        masks: Tensor,
        times: Tensor | None,
        layer: _DropoutNd,
        key: tuple[int, ...],
        samples: range,
        first: int,
    ) -> None:
        """All masks in one call: noise has the samples' numbers and the elements' places as its counters."""
        place = native.Place(stream_seed(self.seed, *key), samples.start, len(samples), first)
        if (soft := self._soft(layer)) is None:
            native.fill_masks(masks, times, place, law=layer.p, exponent=0)
        else:
            exponent = native.exponent_of(soft.temperature)
            native.fill_masks(masks, times, place, soft.p_logit.item(), exponent)

    def _fill(
        self,
        out: Tensor,
        layer: _DropoutNd,
        block: Block,
        width: int,
        generator: torch.Generator,
        times: Tensor | None,
    ) -> None:
        """The masks of the rows of a block, into a flat tensor."""
        by_bits = out.is_cpu and out.dtype is torch.float32
        if by_bits and block.skip == 0:
            self._fill_by_bits(out, layer, generator, times)
            return
        # Bits are a serial stream, of which the end need not be drawn.
        whole = out.new_empty((block.skip + block.rows if by_bits else block.length) * width)
        if by_bits:
            self._fill_by_bits(whole, layer, generator, None)
        else:
            self._fill_by_uniforms(whole, layer, generator)
        out.copy_(whole[block.skip * width : (block.skip + block.rows) * width])
        if times is not None:
            out.mul_(times)

    def _fill_by_bits(self, out: Tensor, layer: _DropoutNd, generator: torch.Generator, times: Tensor | None) -> None:
        for start in range(0, out.numel(), BLOCK):
            mask = out[start : start + BLOCK]
            bits, floats = block_workspace(mask.shape)
            part = None if times is None else times[start : start + BLOCK]
            self._to_masks(mask, bits.draw_(generator), floats, layer, part)

    def _to_masks(self, masks: Tensor, bits: Tensor, floats: Tensor, layer: _DropoutNd, times: Tensor | None) -> None:
        """Flat masks from random bits, with a buffer ``floats`` of the same shape."""
        if (soft := self._soft(layer)) is None:  # u = 1/2 + bits / 2^32
            retained = floats.copy_(bits).ge_((layer.p - 0.5) * 2**32)
            scale = _hard_scale(layer.p)
        else:
            logit = bounded(soft.p_logit.item())
            # 1 - u is as uniform as u: with the opposite logit, the drop indicator z is distributed as 1 - z
            retained = soft_drop_(floats, bits, masks, -logit, soft.temperature)
            scale = 1 + math.exp(logit)
        if times is None:
            torch.mul(retained, scale, out=masks)
        else:
            torch.addcmul(ZERO, retained, times, value=scale, out=masks)

    def _fill_by_uniforms(self, out: Tensor, layer: _DropoutNd, generator: torch.Generator) -> None:
        out.uniform_(generator=generator)
        if (soft := self._soft(layer)) is None:
            out.le_(1 - layer.p).mul_(_hard_scale(layer.p))
            return
        logit = bounded(soft.p_logit.item())
        z = out.logit_(eps=open_interval_margin(out.dtype)).add_(logit).div_(soft.temperature).sigmoid_()
        z.neg_().add_(1).mul_(1 + math.exp(logit))

    def _stream(self, device: torch.device, *key: int) -> torch.Generator:
        """A generator at the start of the stream that belongs to ``key``; there is one generator per device."""
        if device not in self._generators:
            self._generators[device] = torch.Generator(device)
        return self._generators[device].manual_seed(stream_seed(self.seed, *key))


def _pieces(flat: Tensor, blocks: Sequence[Block], width: int) -> Iterator[tuple[Block, int, Tensor]]:
    """Each block with its part of a flat tensor, and where that starts."""
    start = 0
    for block in blocks:
        yield block, start, flat[start : start + block.rows * width]
        start += block.rows * width


def _hard_scale(p: float) -> float:
    return 1 / (1 - p) if p < 1 else 0.0
