"""The Concrete mask with its analytic gradient, and the two terms of the KL (paper, section 3).

    z = sigmoid((p_logit + logit u) / t),   u ~ U(0, 1)        soft drop indicator
    y = x * (1 - z) / (1 - p),              p = sigmoid(p_logit)

With s = 1 / (1 - p) = 1 + exp(p_logit), both derivatives need only x and z:

    dy/dx       = (1 - z) s
    dy/dp_logit = x (1 - z) s (p - z / t)

z is rounded to float16 before it is applied (not for float64 inputs): backward then keeps two bytes per entry, and
its gradient is that of the very mask that was applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from concrete_dropout.dropout import kernels
from concrete_dropout.dropout.noise import compute_dtype, logistic_noise, mask_dtype


def concrete_dropout(
    x: Tensor,
    p_logit: Tensor,
    temperature: float = 0.1,
    *,
    mask_shape: Sequence[int] | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Drop entries of ``x`` softly with probability ``sigmoid(p_logit)``, differentiably in both.

    Args:
        x: input of any shape and floating dtype.
        p_logit: logit of the drop probability, a scalar (or anything that broadcasts with the mask).
        temperature: of the Concrete distribution; as it tends to 0 the mask becomes Bernoulli.
        mask_shape: shape of the mask, broadcastable to ``x``; the shape of ``x`` by default.
        generator: source of the noise; torch's default generator of the device by default.

    Returns:
        ``x * (1 - z) / (1 - p)``, with the shape and dtype of ``x``.

    >>> x = torch.ones(4, 3, dtype=torch.float64)
    >>> concrete_dropout(x, torch.tensor(-40.0)).allclose(x)
    True
    """
    shape = x.shape if mask_shape is None else mask_shape
    function = _KernelConcreteDropout if kernels.fit(x, p_logit, shape) else _PlainConcreteDropout
    y, _ = function.apply(x, p_logit, temperature, shape, generator)
    return y


def soft_drop_indicator(
    p_logit: Tensor,
    temperature: float,
    shape: Sequence[int],
    *,
    dtype: torch.dtype,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw z, the relaxed Bernoulli(p) drop indicator, of the given shape for inputs of ``dtype``.

    Noise and sigmoid are computed in float32 at least: a bf16 uniform often rounds to 0 or 1.
    """
    working = compute_dtype(dtype)
    noise = logistic_noise(shape, dtype=working, device=p_logit.device, generator=generator)
    return torch.sigmoid((noise + p_logit.to(working)) / temperature).to(mask_dtype(dtype))


def retain_mask(z: Tensor, p_logit: Tensor, dtype: torch.dtype) -> Tensor:
    """(1 - z) / (1 - p) in ``dtype``."""
    return ((1 - z.to(compute_dtype(dtype))) * retain_scale(p_logit, dtype)).to(dtype)


def retain_scale(p_logit: Tensor, dtype: torch.dtype) -> Tensor:
    """1 / (1 - p), exact for any logit, in float32 at least.

    Capped at the square root of the largest number of ``dtype``, so that a kept activation cannot overflow.
    That touches nothing but float16 at p > 0.996.
    """
    scale = 1 + torch.exp(p_logit.to(compute_dtype(dtype)))
    return scale.clamp(max=torch.finfo(dtype).max ** 0.5)


class _PlainConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> (y, z), by expressions that torch can compile, vectorise (vmap) and differentiate again.

    Saves x, z and the scalar p_logit. z is an output so that second derivatives reach p_logit through it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        p_logit: Tensor,
        temperature: float,
        mask_shape: Sequence[int],
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        z = soft_drop_indicator(p_logit, temperature, mask_shape, dtype=x.dtype, generator=generator)
        return x * retain_mask(z, p_logit, x.dtype), z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, p_logit, ctx.temperature, _, _ = inputs
        ctx.save_for_backward(x, p_logit, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, grad_z: Tensor | None) -> tuple[Tensor | None, ...]:
        x, p_logit, z = ctx.saved_tensors
        needs_x, needs_logit = ctx.needs_input_grad[:2]
        grad_x = grad_y * retain_mask(z, p_logit, x.dtype) if needs_x and grad_y is not None else None
        grad_logit = _grad_p_logit(grad_y, grad_z, x, p_logit, z, ctx.temperature) if needs_logit else None
        return grad_x, grad_logit, None, None, None


class _KernelConcreteDropout(torch.autograd.Function):
    """The same by ``kernels``, for plain eager CPU tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        p_logit: Tensor,
        temperature: float,
        mask_shape: Sequence[int],
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        y, z = kernels.forward(x, p_logit.item(), temperature, mask_shape, generator)
        ctx.temperature = temperature
        ctx.save_for_backward(x, p_logit, z)
        ctx.set_materialize_grads(False)
        return y, z

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, grad_z: Tensor | None) -> tuple[Tensor | None, ...]:
        x, p_logit, z = ctx.saved_tensors
        # Gradients that must be differentiable themselves (create_graph), or are batched, need plain expressions.
        if grad_y is None or grad_z is not None or torch.is_grad_enabled() or kernels.transforms_active():
            return _PlainConcreteDropout.backward(ctx, grad_y, grad_z)
        needs_x, needs_logit = ctx.needs_input_grad[:2]
        grad_x, total = kernels.backward(grad_y, x, z, p_logit.item(), ctx.temperature, needs_logit)
        return (
            grad_x if needs_x else None,
            torch.full_like(p_logit, total) if needs_logit else None,
            None,
            None,
            None,
        )


def _grad_p_logit(
    grad_y: Tensor | None, grad_z: Tensor | None, x: Tensor, p_logit: Tensor, z: Tensor, temperature: float
) -> Tensor:
    """Gradient for the logit, summed in float32 at least: products of fp16 values overflow."""
    working = compute_dtype(x.dtype)
    logit, z = p_logit.to(working), z.to(working)
    grad = torch.zeros_like(logit)
    if grad_y is not None:
        slope = (1 - z) * retain_scale(logit, x.dtype) * (torch.sigmoid(logit) - z / temperature)
        grad = grad + (grad_y.to(working) * x.to(working) * slope).sum_to_size(logit.shape)
    if grad_z is not None:
        grad = grad + (grad_z.to(working) * z * (1 - z) / temperature).sum_to_size(logit.shape)
    return grad.to(p_logit.dtype)


def bernoulli_entropy(p_logit: Tensor) -> Tensor:
    """H(p) = -p log p - (1 - p) log(1 - p) in nats, from the logit: exact and finite everywhere.

    With log p = -softplus(-a) and log(1 - p) = -softplus(a), neither logarithm sees a rounded p.

    >>> bernoulli_entropy(torch.tensor(0.0)).item() == pytest.approx(math.log(2))
    True
    """
    return torch.sigmoid(p_logit) * softplus(-p_logit) + torch.sigmoid(-p_logit) * softplus(p_logit)


def weight_term(squared_norm: Tensor, p_logit: Tensor, length_scale: float) -> Tensor:
    """l^2 / 2 * ||W||^2 / (1 - p), where W is the weight as stored and 1 / (1 - p) = 1 + exp(p_logit).

    >>> weight_term(torch.tensor(8.0), torch.tensor(0.0), length_scale=0.5).item()
    2.0
    """
    return 0.5 * length_scale**2 * squared_norm * (1 + torch.exp(p_logit))
