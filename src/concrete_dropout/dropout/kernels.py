"""CPU kernels for the Concrete mask, on blocks that stay in the cache.

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

from concrete_dropout.dropout.noise import ONE, ZERO, bounded, grid_bits_, random_bits_, soft_drop_

PLAIN = (Tensor, torch.nn.Parameter)
BLOCK = 1 << 15
COLUMNS = 256
ROWS = BLOCK // COLUMNS
MANY_SIZES = 64


def fit(x: Tensor, p_logit: Tensor, mask_shape: Sequence[int]) -> bool:
    """Whether the kernels apply: plain float32 tensors on the CPU, one p, a mask they know, no transform at work."""
    return (
        not torch.compiler.is_compiling()
        and x.dtype is torch.float32
        and x.device.type == "cpu"
        and p_logit.device.type == "cpu"
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
    """Y of the shape of ``x``, z of ``mask_shape``."""
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
    x = _dense(x)
    y, z = torch.empty_like(x), torch.empty_like(x, dtype=torch.float16)
    scale = 1 + math.exp(logit)
    for x_block, y_block, z_block in _blocks(x, y, z):
        room = _workspace.sized(x_block.numel())
        grid_bits_(room.grid, room.seeds, generator)
        exact = soft_drop_(room.first, room.bits, room.second, logit, temperature)
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
        room = _workspace.sized(z_block.numel())
        z_exact = room.first.copy_(z_block)
        kept = torch.sub(ONE, z_exact, out=room.second)
        torch.addcmul(ZERO, kept, grad_block, value=scale, out=grad_x_block)
        if needs_logit:
            product = torch.mul(grad_x_block, x_block, out=room.second)
            total += p * product.sum().item() - torch.dot(product, z_exact).item() / temperature
    return grad_x, total


def _channelwise_backward(
    grad: Tensor, x: Tensor, z: Tensor, logit: float, temperature: float, needs_logit: bool
) -> tuple[Tensor, float]:
    mask = _retain(z, logit)
    if not needs_logit or x.numel() == 0:
        return grad * mask, 0.0
    grad, x = grad.contiguous(), x.contiguous()
    rows = z.numel()
    grad_x = torch.empty_like(x)
    slope = (1 / (1 + math.exp(-logit)) - z.float() / temperature).view(rows)
    flat = [tensor.view(rows, -1) for tensor in (grad, x, grad_x)]
    mask = mask.view(rows, 1)
    step = max(1, BLOCK // max(1, flat[0].shape[1]))
    total = 0.0
    for start in range(0, rows, step):
        grad_block, x_block, grad_x_block = (tensor[start : start + step] for tensor in flat)
        torch.mul(grad_block, mask[start : start + step], out=grad_x_block)
        products = torch.linalg.vecdot(grad_x_block, x_block)
        total += torch.dot(products, slope[start : start + step]).item()
    return grad_x, total


def _soft_drop(shape: Sequence[int], logit: float, temperature: float, generator: torch.Generator | None) -> Tensor:
    """A new z of the given shape, for float32 inputs."""
    size = math.prod(shape)
    bits = random_bits_(torch.empty((size + 1) // 2, dtype=torch.int64), generator)[:size]
    return soft_drop_(torch.empty(size), bits, torch.empty(size), logit, temperature).half().view(shape)


def _retain(z: Tensor, logit: float) -> Tensor:
    return (1 - z.float()).mul_(1 + math.exp(logit))


def _dense(tensor: Tensor) -> Tensor:
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
    """Walk tensors of one dense layout together, a flat block of each at a time."""
    size = tensors[0].numel()
    flat = [tensor.as_strided((size,), (1,)) for tensor in tensors]
    if size <= BLOCK:
        return iter([tuple(flat)])
    return zip(*(tensor.split(BLOCK) for tensor in flat), strict=True)


class _Room(NamedTuple):
    """Buffers for a block of n elements."""

    seeds: Tensor  # int64: a word for every row and column of the grid
    grid: Tensor  # int32, (rows, COLUMNS)
    bits: Tensor  # the first n of the grid
    first: Tensor  # float32, (n,)
    second: Tensor


class _Workspace(threading.local):
    """Buffers that the calls of one thread share: memory that was used a moment ago is in the cache."""

    def __init__(self) -> None:
        self._rooms: dict[int, _Room] = {}

    def sized(self, size: int) -> _Room:
        """The buffers, cut to ``size`` elements."""
        room = self._rooms.get(size)
        if room is None:
            room = self._rooms[size] = self._cut(size)
        return room

    def _cut(self, size: int) -> _Room:
        if len(self._rooms) > MANY_SIZES:
            self._rooms.clear()
        rows = -(-size // COLUMNS)
        if not self._rooms:
            with torch.inference_mode(False):  # a tensor made in inference mode could not be written to outside of it
                self._seeds = torch.empty((ROWS + COLUMNS) // 2, dtype=torch.int64, device="cpu")
                self._bits = torch.empty(BLOCK, dtype=torch.int32, device="cpu")
                self._first = torch.empty(BLOCK, dtype=torch.float32, device="cpu")
                self._second = torch.empty(BLOCK, dtype=torch.float32, device="cpu")
        with torch.inference_mode(False):
            return _Room(
                self._seeds[: (rows + COLUMNS + 1) // 2],
                self._bits[: rows * COLUMNS].view(rows, COLUMNS),
                self._bits[:size],
                self._first[:size],
                self._second[:size],
            )


_workspace = _Workspace()
