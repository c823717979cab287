"""Concrete masks for a stack of networks: one p per replica, all masks of a layer in one go.

The formulas are those of ``dropout.functional``, and so is the rounding of z. On the CPU compiled code does it, as in
``dropout.native``; without that, blocks that stay in the cache, as in ``dropout.kernels``: what is a number there is a
column (R, 1, 1) here. Anywhere else the plain expressions of ``functional`` do the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from concrete_dropout.dropout import native
from concrete_dropout.dropout.functional import concrete_dropout
from concrete_dropout.dropout.kernels import BLOCK, PLAIN, block_workspace, transforms_active
from concrete_dropout.dropout.noise import HALF_RANGE, ONE, integer_power

MAX_LOGIT = 80.0  # float32 holds its exponential


def stacked_concrete_dropout(x: Tensor, p_logit: Tensor, temperature: float = 0.1) -> Tensor:
    """Drop entries of ``x`` (R, B, K) softly, those of replica r with probability sigmoid(p_logit[r]).

    Args:
        x: inputs of all replicas.
        p_logit: (R,).
        temperature: of the Concrete distribution.

    >>> x = torch.ones(2, 3, 4)
    >>> stacked_concrete_dropout(x, torch.tensor([-40.0, -40.0])).allclose(x)
    True
    """
    if _kernel_fits(x, p_logit):
        if native.available() and native.exponent_of(temperature):
            compiled: Tensor = _NativeStackedConcreteDropout.apply(x, p_logit, temperature)
            return compiled
        y: Tensor = _StackedConcreteDropout.apply(x, p_logit, temperature)
        return y
    return concrete_dropout(x, p_logit.view(-1, 1, 1), temperature)


def _kernel_fits(x: Tensor, p_logit: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and x.dtype is torch.float32
        and x.is_cpu
        and p_logit.is_cpu
        and p_logit.dtype is torch.float32
        and type(x) in PLAIN
        and type(p_logit) in PLAIN
        and 0 < x.shape[2] <= BLOCK
        and x.numel() > 0
        and not transforms_active()
    )


class _NativeStackedConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> y. Saves x and p_logit; z is drawn again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p_logit: Tensor, temperature: float) -> Tensor:
        x, p_logit = x.contiguous(), p_logit.contiguous()
        ctx.temperature, ctx.key = temperature, native.draw_key(None)
        ctx.save_for_backward(x, p_logit)
        ctx.set_materialize_grads(False)
        return native.stack_forward(x, p_logit, temperature, ctx.key)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_y is None:
            return None, None, None
        _refuse_second_derivatives()
        x, p_logit = ctx.saved_tensors
        needs_x, needs_logit, _ = ctx.needs_input_grad
        grad_x, grad_logit = native.stack_backward(grad_y.contiguous(), x, p_logit, ctx.temperature, ctx.key)
        return grad_x if needs_x else None, grad_logit if needs_logit else None, None


class _StackedConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> y. Saves x, z in float16, and two columns (R, 1, 1)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p_logit: Tensor, temperature: float) -> Tensor:
        x = x.contiguous()
        odds = torch.exp(p_logit.float().clamp(-MAX_LOGIT, MAX_LOGIT)).view(-1, 1, 1)  # p / (1 - p)
        inverse, scale = odds.reciprocal(), odds + ONE
        y, z = torch.empty_like(x), torch.empty_like(x, dtype=torch.float16)
        for x_block, y_block, z_block, inverse_block, scale_block in _blocks(x, y, z, inverse, scale):
            bits, floats = block_workspace(x_block.shape)
            # y is written last: until then its memory serves for what lies between
            exact = _soft_drop_(floats, bits.draw_(), y_block, inverse_block, temperature)
            rounded = exact.copy_(z_block.copy_(exact))
            torch.mul(torch.sub(ONE, rounded, out=rounded), x_block, out=y_block).mul_(scale_block)
        ctx.temperature = temperature
        ctx.save_for_backward(x, z, odds, scale)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_y is None:
            return None, None, None
        _refuse_second_derivatives()
        x, z, odds, scale = ctx.saved_tensors
        needs_x, needs_logit, _ = ctx.needs_input_grad
        grad_y, grad_x = grad_y.contiguous(), torch.empty_like(x)
        p = odds / scale  # (R, 1, 1)
        sums: list[Tensor] = []
        for grad, x_block, z_block, out, p_block, scale_block in _blocks(grad_y, x, z, grad_x, p, scale):
            z_float = block_workspace(z_block.shape)[1].copy_(z_block)
            torch.sub(ONE, z_float, out=out).mul_(grad).mul_(scale_block)
            if needs_logit:  # sum of grad_x x (p - z / t)
                slope = z_float.mul_(-1 / ctx.temperature).add_(p_block)
                sums.append(slope.mul_(x_block).mul_(out).sum((1, 2)))
        return grad_x if needs_x else None, _joined(sums, len(p)) if needs_logit else None, None


def _refuse_second_derivatives() -> None:
    if torch.is_grad_enabled():
        raise NotImplementedError("gradients of gradients (create_graph) are not available for stacked networks")


def _soft_drop_(z: Tensor, bits: Tensor, scratch: Tensor, inverse_odds: Tensor, temperature: float) -> Tensor:
    """``noise.soft_drop_`` with a factor (1 - p) / p, (R, 1, 1), for each replica."""
    z.copy_(bits)
    above = torch.sub(HALF_RANGE, z, out=scratch)  # 1 - u and u, times 2^32
    odds = above.div_(z.add_(HALF_RANGE)).mul_(inverse_odds)
    inverse = 1 / temperature
    exponent = round(inverse)
    if inverse != exponent or exponent > 64:
        return torch.log(odds, out=z).mul_(-inverse).sigmoid_()
    if exponent == 10:  # the usual one, without the bookkeeping of a general power
        torch.square(odds, out=z).square_().mul_(odds)
        return torch.addcmul(ONE, z, z, out=z).reciprocal_()
    return integer_power(odds, exponent, out=z).add_(ONE).reciprocal_()


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walk tensors (R, B, K) and columns (R, 1, 1) together: whole where they are small, else block by block."""
    num_replicas, num_rows, width = tensors[0].shape
    group = BLOCK // (num_rows * width)
    if group >= num_replicas:
        yield tensors
    elif group > 0:
        yield from zip(*(tensor.split(group) for tensor in tensors), strict=True)
    else:  # rows of one replica at a time
        rows = BLOCK // width
        for replica in zip(*(tensor.split(1) for tensor in tensors), strict=True):
            pieces = -(-num_rows // rows)
            yield from zip(
                *((t,) * pieces if t.shape[1] < num_rows else t.split(rows, dim=1) for t in replica), strict=True
            )


def _joined(sums: list[Tensor], num_replicas: int) -> Tensor:
    """Sums over blocks, each (replicas of the block,), as one (R,)."""
    if len(sums) == 1:
        return sums[0]
    parts = torch.cat(sums)
    return parts if len(parts) == num_replicas else parts.view(num_replicas, -1).sum(1)
