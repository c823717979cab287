"""CPU kernels for the Concrete mask by torch operations, on blocks that stay in the cache: for where ``native`` is not.

Fresh memory is the main cost of an element-wise operation on a large CPU tensor: every page of it has to be
faulted in. So these kernels allocate their results and nothing else of that size; whatever lies between is
kept in one small buffer that all blocks share. They compute exactly what ``functional`` writes as plain
expressions, for float32 tensors outside of transforms (compile, vmap).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from concrete_dropout.dropout.noise import ONE, ZERO, BitGrid, bounded, random_bits_, soft_drop_

PLAIN = (Tensor, torch.nn.Parameter)
BLOCK = 1 << 17  # elements: torch shares them among threads, and each thread's part stays in its L2 cache
CHANNEL_BLOCK = 1 << 20  # channel-wise there is little but memory to wait for: fewer, longer operations
MAX_SHAPES = 64


def fit(x: Tensor, p_logit: Tensor, mask_shape: Sequence[int]) -> bool:
    """Whether the kernels apply: plain float32 tensors on the CPU, one p, a mask they know, no transform at work."""
    return (
        not torch.compiler.is_compiling()
        and x.dtype is torch.float32
        and x.is_cpu
        and p_logit.is_cpu
        and p_logit.numel() == 1
        and type(x) in PLAIN
        and type(p_logit) in PLAIN
        and (mask_shape == x.shape or _is_channel_mask(mask_shape, x))
        and not transforms_active()
    )


def transforms_active() -> bool:
    """Whether torch.func (vmap, grad, ...) is at work."""
    return torch._C._are_functorch_transforms_active()


def forward(
    x: Tensor, logit: float, temperature: float, mask_shape: Sequence[int], generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Give y of the shape of ``x``, and z of ``mask_shape``."""
    logit = bounded(logit)
    if mask_shape == x.shape:
        return _elementwise_forward(x, logit, temperature, generator)
    z = _soft_drop(mask_shape, logit, temperature, generator)
    return x * _retain(z, logit), z


def backward(
    grad: Tensor, x: Tensor, z: Tensor, logit: float, temperature: float, needs_logit: bool
) -> tuple[Tensor, float]:
    """Gradients for x, and (if needed) for p_logit: the sum of grad_x * x * (p - z / t)."""
    logit = bounded(logit)
    kernel = _elementwise_backward if z.shape == x.shape else _channelwise_backward
    return kernel(grad, x, z, logit, temperature, needs_logit)


def _elementwise_forward(
    x: Tensor, logit: float, temperature: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    x = dense(x)
    y, z = torch.empty_like(x), torch.empty_like(x, dtype=torch.float16)
    scale = 1 + math.exp(logit)
    for x_block, y_block, z_block in _blocks(x, y, z):
        room = _workspace.cut(x_block.shape)
        # y is written last: until then its memory serves for what lies between
        exact = soft_drop_(room.floats, room.bits.draw_(generator), y_block, logit, temperature)
        rounded = exact.copy_(z_block.copy_(exact))
        torch.addcmul(ZERO, torch.sub(ONE, rounded, out=rounded), x_block, value=scale, out=y_block)
    return y, z


def _elementwise_backward(
    grad: Tensor, x: Tensor, z: Tensor, logit: float, temperature: float, needs_logit: bool
) -> tuple[Tensor, float]:
    grad, x = _like_layout(grad, z), _like_layout(x, z)
    grad_x = torch.empty_like(x)
    scale, p = 1 + math.exp(logit), 1 / (1 + math.exp(-logit))
    total = 0.0
    for grad_block, x_block, z_block, grad_x_block in _blocks(grad, x, z, grad_x):
        z_float = _workspace.cut(z_block.shape).floats.copy_(z_block)
        retained = torch.sub(ONE, z_float, out=grad_x_block)
        torch.addcmul(ZERO, retained, grad_block, value=scale, out=grad_x_block)
        if needs_logit:
            slope = torch.sub(ONE, z_float, alpha=1 / (p * temperature), out=z_float)
            # Not as a dot product: torch leaves that to its BLAS, whose threads wait for each other at any length.
            total += slope.mul_(x_block).mul_(grad_x_block).sum().item()
    return grad_x, p * total


def _channelwise_backward(
    grad: Tensor, x: Tensor, z: Tensor, logit: float, temperature: float, needs_logit: bool
) -> tuple[Tensor, float]:
    mask = _retain(z, logit)
    if not needs_logit or x.numel() == 0:
        return grad * mask, 0.0
    grad, x = grad.contiguous(), x.contiguous()
    rows, columns = z.numel(), x.numel() // z.numel()
    grad_x = torch.empty_like(x)
    step = max(1, CHANNEL_BLOCK // columns)
    sums = torch.empty(rows, dtype=torch.float32, device="cpu")
    flat = (grad.view(rows, columns), x.view(rows, columns), grad_x.view(rows, columns), mask.view(rows, 1), sums)
    for grad_block, x_block, grad_x_block, mask_block, sums_block in zip(
        *(tensor.split(step) for tensor in flat), strict=True
    ):
        products = torch.mul(grad_block, x_block, out=grad_x_block)  # for a moment, in memory that is needed anyway
        torch.sum(products, dim=1, out=sums_block)
        torch.mul(grad_block, mask_block, out=grad_x_block)
    slope = z.float().view(rows).mul_(-1 / temperature).add_(1 / (1 + math.exp(-logit)))
    return grad_x, sums.mul_(mask.view(rows)).mul_(slope).sum().item()


def _soft_drop(shape: Sequence[int], logit: float, temperature: float, generator: torch.Generator | None) -> Tensor:
    """A new z of the given shape, for float32 inputs."""
    size = math.prod(shape)
    bits = random_bits_(torch.empty((size + 1) // 2, dtype=torch.int64, device="cpu"), generator)[:size]
    exact, scratch = torch.empty((2, size), dtype=torch.float32, device="cpu")
    return soft_drop_(exact, bits, scratch, logit, temperature).half().view(shape)


def _retain(z: Tensor, logit: float) -> Tensor:
    return (1 - z.float()).mul_(1 + math.exp(logit))


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself if its elements fill one stretch of memory in a standard layout, else a copy."""
    if tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return tensor
    return tensor.contiguous()


def _like_layout(tensor: Tensor, reference: Tensor) -> Tensor:
    if tensor.stride() == reference.stride():
        return tensor
    return torch.empty_like(reference, dtype=tensor.dtype).copy_(tensor)


def _is_channel_mask(mask_shape: Sequence[int], x: Tensor) -> bool:
    """Whether the mask holds one value per leading index of ``x`` and ones behind, e.g. (N, C, 1, 1)."""
    if len(mask_shape) != x.dim():
        return False
    leading = next(i for i, size in enumerate(x.shape) if mask_shape[i] != size)
    return all(size == 1 for size in mask_shape[leading:])


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walk tensors of one dense layout together: as they are if they are small, else a flat block of each at a time."""
    size = tensors[0].numel()
    if size <= BLOCK and tensors[0].is_contiguous():
        yield tensors
        return
    offsets = [tensor.storage_offset() for tensor in tensors]
    for start in range(0, max(size, 1), BLOCK):
        length = (min(BLOCK, size - start),)
        yield tuple(
            [tensor.as_strided(length, (1,), offset + start) for tensor, offset in zip(tensors, offsets, strict=True)]
        )


class _Room(NamedTuple):
    """Buffers of the shape of a block, in the same memory: bits turn into numbers where they are."""

    bits: BitGrid
    floats: Tensor  # float32


class _Workspace(threading.local):
    """Buffers that the calls of one thread share, and views of them for the shapes of blocks met so far."""

    @torch.inference_mode(False)  # a tensor made in inference mode could not be written to outside of it
    def __init__(self) -> None:
        self._memory = torch.empty(BLOCK, dtype=torch.int32, device="cpu")
        self._rooms: dict[torch.Size, _Room] = {}

    def cut(self, shape: torch.Size) -> _Room:
        """The buffers for a block of at most ``BLOCK`` elements."""
        room = self._rooms.get(shape)
        if room is None:
            if len(self._rooms) >= MAX_SHAPES:
                self._rooms.clear()
            with torch.inference_mode(False):
                floats = self._memory[: shape.numel()].view(torch.float32).view(shape)
                room = _Room(BitGrid(shape, self._memory), floats)
            self._rooms[shape] = room
        return room


_workspace = _Workspace()


def block_workspace(shape: torch.Size) -> tuple[BitGrid, Tensor]:
    """A source of bits, and a float32 buffer in the same memory, for a block of at most ``BLOCK`` elements."""
    return _workspace.cut(shape)
