"""Masks for sampling, each from a random stream of its own.

The mask of (sample, layer, call, block of rows) depends on those and the seed alone (small masks of several samples
share a stream, in which each has its place). So it does not matter how samples and rows are cut into batches: the same
seed gives the same masks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kernels import BLOCK, block_workspace
from concrete_dropout.dropout.kinds import is_channelwise
from concrete_dropout.dropout.layers import _ConcreteDropoutNd
from concrete_dropout.dropout.noise import (
    ZERO,
    bits_of_streams,
    bounded,
    compute_dtype,
    open_interval_margin,
    soft_drop_,
)

Mask = Literal["concrete", "bernoulli"]
MASKS: tuple[str, ...] = get_args(Mask)
BLOCK_ELEMENTS = 1 << 18
MAX_BLOCK_ROWS = 256
STREAM_ELEMENTS = 1 << 17
KEPT_ELEMENTS = 1 << 15  # of a stream whose masks are kept for the samples of later passes
MAX_STREAM_SAMPLES = 64


def block_rows(x: Tensor) -> int:
    """How many rows of the model's input share a stream: a function of its shape alone."""
    return max(1, min(MAX_BLOCK_ROWS, BLOCK_ELEMENTS // max(1, math.prod(x.shape[1:]))))


def samples_per_stream(blocks: Sequence[Block], width: int) -> int:
    """How many consecutive samples share a stream: several where masks are small, for a stream takes time to begin.

    A function of the shape alone, as ``block_rows`` is: it does not matter which samples a pass draws.
    """
    return max(1, min(MAX_STREAM_SAMPLES, STREAM_ELEMENTS // max(1, width * max(block.length for block in blocks))))


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
        self._kept: dict[tuple[int, ...], tuple[tuple[Any, ...], Tensor]] = {}

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
        together = samples_per_stream(blocks, math.prod(trailing))
        alone = together == len(samples) == len(blocks) == 1 and blocks[0].skip == 0
        if alone and x.is_cpu and x.dtype is torch.float32:
            mask = torch.empty((1, blocks[0].rows, *trailing), dtype=torch.float32, device="cpu")
            if 0 < mask.numel() <= BLOCK:  # the usual case of a network of some size, with the least bookkeeping
                bits, floats = block_workspace(mask.shape)
                generator = self._stream(x.device, samples.start, *key, blocks[0].index)
                self._to_masks(mask, bits.draw_(generator), floats, layer, times)
                return mask
        rows, width = sum(block.rows for block in blocks), math.prod(trailing)
        group = samples.start // together
        if (
            together > 1
            and x.is_cpu
            and x.dtype is torch.float32
            and 0 < rows * width * together <= KEPT_ELEMENTS
            and (samples.stop - 1) // together == group
        ):
            kept = self._whole_stream(layer, key, range(group * together, (group + 1) * together), tuple(blocks), width)
            mask = kept[samples.start - group * together : samples.stop - group * together]
            mask = mask.view(len(samples), rows, *trailing)
            return mask if times is None else mask * times
        masks = torch.empty((len(samples), rows * width), dtype=compute_dtype(x.dtype), device=x.device)
        factors = None if times is None else times.reshape(masks.shape)
        longest = max((block.skip + block.rows) * width for block in blocks)
        by_bits = masks.is_cpu and masks.dtype is torch.float32
        at_once = len(samples) * len(blocks) > 1 and max(masks.numel(), longest) <= BLOCK
        if by_bits and masks.numel() and (together > 1 or at_once):
            self._fill_at_once(masks, layer, key, samples, blocks, width, factors)
        else:
            for number, sample in enumerate(samples):
                factor = None if factors is None else factors[number]
                for block, start, out in _pieces(masks[number], blocks, width):
                    generator = self._stream(x.device, sample, *key, block.index)
                    part = None if factor is None else factor[start : start + out.numel()]
                    self._fill(out, layer, block, width, generator, part)
        return masks.to(x.dtype).view(len(samples), rows, *trailing)

    def _whole_stream(
        self, layer: _DropoutNd, key: tuple[int, ...], samples: range, blocks: tuple[Block, ...], width: int
    ) -> Tensor:
        """Small masks of all samples that share a stream, (samples, rows * width); their passes often come in turn."""
        # One place for each call of a layer in a pass, whatever rows come, and one for all calls outside of passes.
        place = tuple(max(part, -1) for part in key)
        state = key, blocks, width, samples.start, layer.p, getattr(layer, "temperature", None)
        known = self._kept.get(place)
        if known is None or known[0] != state:
            with torch.inference_mode(False):  # later passes may need gradients
                masks = torch.empty((len(samples), sum(block.rows for block in blocks) * width), device="cpu")
                self._fill_at_once(masks, layer, key, samples, blocks, width, None)
            known = self._kept[place] = state, masks
        return known[1]

    def _fill_at_once(
        self,
        masks: Tensor,
        layer: _DropoutNd,
        key: tuple[int, ...],
        samples: range,
        blocks: Sequence[Block],
        width: int,
        times: Tensor | None,
    ) -> None:
        """Several small masks: bits are drawn stream by stream, and turned into masks together."""
        together = samples_per_stream(blocks, width)
        if together == 1 and len(blocks) == 1 and blocks[0].skip == 0:
            streams = (self._stream(masks.device, sample, *key, blocks[0].index) for sample in samples)
            bits = bits_of_streams(streams, len(samples), masks.shape[1]).contiguous()
        else:
            bits = self._shared_bits(key, samples, blocks, width, together)
        flat, flat_bits = masks.view(-1), bits.view(-1)
        factors = None if times is None else times.reshape(-1)
        for start in range(0, flat.numel(), BLOCK):
            piece = slice(start, start + BLOCK)
            _, floats = block_workspace(flat[piece].shape)
            part = None if factors is None else factors[piece]
            self._to_masks(flat[piece], flat_bits[piece], floats, layer, part)

    def _shared_bits(
        self, key: tuple[int, ...], samples: range, blocks: Sequence[Block], width: int, together: int
    ) -> Tensor:
        """Bits (samples, rows, width) from streams of ``together`` samples each."""
        rows = sum(block.rows for block in blocks)
        bits = torch.empty((len(samples), rows, width), dtype=torch.int32, device="cpu")
        for group in range(samples.start // together, (samples.stop - 1) // together + 1):
            inside = range(max(samples.start, group * together), min(samples.stop, (group + 1) * together))
            start = 0
            for block in blocks:
                # Row by row, so that rows at the end need not be drawn: (rows, samples of the stream, width)
                source, _ = block_workspace(torch.Size([block.skip + block.rows, together, width]))
                drawn = source.draw_(self._stream(bits.device, group, *key, block.index))
                wanted = drawn[block.skip :, inside.start - group * together : inside.stop - group * together]
                out = bits[inside.start - samples.start : inside.stop - samples.start, start : start + block.rows]
                out.copy_(wanted.transpose(0, 1))
                start += block.rows
        return bits

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
        if not isinstance(layer, _ConcreteDropoutNd) or self.mask == "bernoulli":  # u = 1/2 + bits / 2^32
            retained = floats.copy_(bits).ge_((layer.p - 0.5) * 2**32)
            scale = _hard_scale(layer.p)
        else:
            logit = bounded(layer.p_logit.item())
            # 1 - u is as uniform as u: with the opposite logit, the drop indicator z is distributed as 1 - z
            retained = soft_drop_(floats, bits, masks, -logit, layer.temperature)
            scale = 1 + math.exp(logit)
        if times is None:
            torch.mul(retained, scale, out=masks)
        else:
            torch.addcmul(ZERO, retained, times, value=scale, out=masks)

    def _fill_by_uniforms(self, out: Tensor, layer: _DropoutNd, generator: torch.Generator) -> None:
        out.uniform_(generator=generator)
        if not isinstance(layer, _ConcreteDropoutNd) or self.mask == "bernoulli":
            out.le_(1 - layer.p).mul_(_hard_scale(layer.p))
            return
        logit = bounded(layer.p_logit.item())
        z = out.logit_(eps=open_interval_margin(out.dtype)).add_(logit).div_(layer.temperature).sigmoid_()
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
