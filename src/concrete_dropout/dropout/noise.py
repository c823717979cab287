"""Uniform and logistic noise: 0 < u < 1 in every dtype, and cheap on the CPU.

torch fills a CPU tensor with uniforms one 32-bit draw at a time. A full-range int64 takes two draws in one
step and holds the bits of two uniforms, which makes the same stream of bits about 1.7 times cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FULL_RANGE_START = -(2**63)

# Tensors, because an operation takes those more quickly than Python's numbers.
ZERO = torch.zeros((), dtype=torch.float32, device="cpu")
ONE = torch.ones((), dtype=torch.float32, device="cpu")
HALF_RANGE = torch.full((), 2.0**31 + 256, dtype=torch.float32, device="cpu")  # above 2^31 by a step: 0 < u < 1


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype noise is computed in: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def mask_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype z is kept in for inputs of ``dtype``: float16 resolves [0, 1] to 2^-11, and small z far better."""
    return torch.float64 if dtype == torch.float64 else torch.float16


def open_interval_margin(dtype: torch.dtype) -> float:
    """Distance of u from 0 and 1: the spacing of the dtype's numbers just below 1."""
    return torch.finfo(dtype).eps / 2


def logistic_noise(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """logit(u) for u ~ U(0, 1): the noise of the binary Concrete distribution, always finite."""
    if generator is None:  # naming it, even as None, selects an overload without dynamic shapes under torch.compile
        u = torch.rand(shape, dtype=dtype, device=device)
    else:
        u = torch.rand(shape, dtype=dtype, device=device, generator=generator)
    return torch.logit(u, eps=open_interval_margin(dtype))


def random_bits_(buffer: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Fill an int64 ``buffer`` with random bits; returns it as int32, twice as long.

    The int32 values are uniform on [-2^31, 2^31), one per 32 bits drawn.
    """
    return buffer.random_(FULL_RANGE_START, None, generator=generator).view(torch.int32)


class BitGrid:
    """Draws ``size`` random int32 values from far fewer words of a generator, over and over into the same memory.

    torch's Mersenne Twister fills a CPU tensor serially, one word after the other, which takes longer than the
    rest of a mask. Here the values are laid out as a grid, with one word drawn for each row and each column, and
    every entry is f(row word + column word) modulo 2^32, where f permutes the 32-bit numbers. Whatever f is, each
    entry is uniform and any three are independent: sums of words first depend on each other around the four
    corners of a rectangle. It is left to f to hide that. x + 2 x^2, the permutation of the RC6 cipher, makes the
    high bits of its result depend on all bits of x; it is applied twice. The low bits stay poor, but are beyond what
    float32 resolves of u.

    Args:
        shape: of the values.
        memory: int32, flat, at least as many entries as the shape has, rounded up to whole rows of the grid; new memory
            by default.

    >>> BitGrid(torch.Size([1000])).draw_().shape
    torch.Size([1000])
    """

    COLUMNS = 256

    def __init__(self, shape: torch.Size, memory: Tensor | None = None) -> None:
        size = shape.numel()
        rows = -(-size // self.COLUMNS)
        if memory is None:
            memory = torch.empty(rows * self.COLUMNS, dtype=torch.int32, device="cpu")
        self._draws = torch.empty((rows + self.COLUMNS + 1) // 2, dtype=torch.int64, device="cpu")
        words = self._draws.view(torch.int32)
        self._columns, self._rows = words[: self.COLUMNS], words[self.COLUMNS : self.COLUMNS + rows].unsqueeze(1)
        self._grid = memory[: rows * self.COLUMNS].view(rows, self.COLUMNS)
        self._values = memory[:size].view(shape)

    def draw_(self, generator: torch.Generator | None = None) -> Tensor:
        """New values, in the place of the old ones."""
        random_bits_(self._draws, generator)
        grid = torch.add(self._rows, self._columns, out=self._grid)
        torch.addcmul(grid, grid, grid, value=2, out=grid)
        torch.addcmul(grid, grid, grid, value=2, out=grid)
        return self._values


def soft_drop_(z: Tensor, bits: Tensor, scratch: Tensor, logit: float, temperature: float) -> Tensor:
    """Compute z = sigmoid((logit + logit u) / t) for the u that int32 ``bits`` stand for, in place.

    As 1 / (1 + q^(1/t)) with q = exp(-logit) (1 - u) / u: for the usual t = 1/10 the power takes four multiplications,
    where logarithm and sigmoid would take most of the time. Infinite and zero powers give the right limits, 0 and 1.

    Args:
        z: float32, is overwritten.
        bits: int32 values r, standing for u = 1/2 + r / 2^32 with a margin at 0 and 1; the shape of ``z``.
        scratch: float32, the shape of ``z``.
        logit: of the drop probability, between -80 and 80.
        temperature: t.
    """
    z.copy_(bits)
    above = torch.sub(HALF_RANGE, z, out=scratch)  # 1 - u and u, times 2^32
    odds = torch.addcdiv(ZERO, above, z.add_(HALF_RANGE), value=math.exp(-logit), out=scratch)
    inverse = 1 / temperature
    if inverse != round(inverse) or inverse > 64:
        return torch.log(odds, out=z).mul_(-inverse).sigmoid_()
    exponent = round(inverse)
    if exponent == 10:  # the usual one, without the bookkeeping of a general power
        torch.square(odds, out=z).square_().mul_(odds)
        return torch.addcmul(ONE, z, z, out=z).reciprocal_()
    if exponent % 2 == 0:  # the last square and the sum in one step
        root = integer_power(odds, exponent // 2, out=z)
        return torch.addcmul(ONE, root, root, out=z).reciprocal_()
    return integer_power(odds, exponent, out=z).add_(ONE).reciprocal_()


def bounded(logit: float) -> float:
    """A logit whose exponential float32 can hold: p within 1e-35 of 0 and 1 is as good as those."""
    return min(max(logit, -80.0), 80.0)


def integer_power(base: Tensor, exponent: int, out: Tensor) -> Tensor:
    """Base ** exponent by repeated squaring, into ``out``.

    >>> integer_power(torch.tensor([2.0, 3.0]), 10, out=torch.empty(2))
    tensor([ 1024., 59049.])
    """
    out.copy_(base) if exponent == 1 else torch.square(base, out=out)
    for position, digit in enumerate(f"{exponent:b}"[1:]):
        if position > 0:
            out.square_()
        if digit == "1":
            out.mul_(base)
    return out
