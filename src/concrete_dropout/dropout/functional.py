"""The Concrete mask with its analytic gradient, and the two terms of the KL (paper, section 3).

    z = sigmoid((p_logit + logit u) / t),   u ~ U(0, 1)        soft drop indicator
    y = x * (1 - z) / (1 - p),              p = sigmoid(p_logit)

With s = 1 / (1 - p) = 1 + exp(p_logit), both derivatives need only x and z:

    dy/dx       = (1 - z) s
    dy/dp_logit = x (1 - z) s (p - z / t)

Compiled code (``native``) draws z again for backward, and keeps nothing but x. Elsewhere z is rounded to float16 before
it is applied (not for float64 inputs): backward then keeps two bytes per entry, and its gradient is that of the very
mask that was applied. (torch.compile may fuse the rounding away.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from concrete_dropout.dropout import kernels, native
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
    if kernels.fit(x, p_logit, shape):
        if native.available() and native.exponent_of(temperature):
            return _NativeConcreteDropout.apply(x, p_logit, temperature, shape, generator)
        return _KernelConcreteDropout.apply(x, p_logit, temperature, shape, generator)
    y, _ = _PlainConcreteDropout.apply(x, p_logit, temperature, shape, generator)
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


def retain_scale(p_logit: Tensor, dtype: torch.dtype) -> Tensor:
    """1 / (1 - p), exact for any logit, in float32 at least.

    Capped at the square root of the largest number of ``dtype``: a rare kept entry at p near 1 shall not overflow.
    That touches nothing but float16 at p > 0.996.
    """
    scale = 1 + torch.exp(p_logit.to(compute_dtype(dtype)))
    return scale.clamp(max=torch.finfo(dtype).max ** 0.5)


class _PlainConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> (y, z), by expressions that torch can compile, vectorise (vmap) and differentiate again.

    Saves x, z and the scalar p_logit.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, p_logit: Tensor, temperature: float, mask_shape: Sequence[int], generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        z = soft_drop_indicator(p_logit, temperature, mask_shape, dtype=x.dtype, generator=generator)
        return _masked(x, z, p_logit), z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, p_logit, ctx.temperature, _, _ = inputs
        ctx.save_for_backward(x, p_logit, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, p_logit, z = ctx.saved_tensors
        return _plain_gradients(ctx, grad_y, x, p_logit, z)


class _NativeConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> y by compiled code, for plain eager CPU tensors. Saves x and p_logit; z is drawn again."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        p_logit: Tensor,
        temperature: float,
        mask_shape: Sequence[int],
        generator: torch.Generator | None,
    ) -> Tensor:
        ctx.temperature, ctx.mask_shape, ctx.key = temperature, mask_shape, native.draw_key(generator)
        ctx.save_for_backward(x, p_logit)
        ctx.set_materialize_grads(False)
        return native.forward(x, p_logit.item(), temperature, mask_shape, ctx.key)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_y is None:
            return None, None, None, None, None
        x, p_logit = ctx.saved_tensors
        logit, needs_logit = p_logit.item(), ctx.needs_input_grad[1]
        if torch.is_grad_enabled() or kernels.transforms_active():
            like = x.detach() if ctx.mask_shape == x.shape else None
            z = 1 - native.retained(ctx.mask_shape, logit, ctx.temperature, ctx.key, like)
            return _plain_gradients(ctx, grad_y, x, p_logit, z)
        grad_x, total = native.backward(grad_y, x, logit, ctx.temperature, ctx.mask_shape, ctx.key)
        return grad_x, torch.full_like(p_logit, total) if needs_logit else None, None, None, None


class _KernelConcreteDropout(torch.autograd.Function):
    """(x, p_logit) -> y by ``kernels``, for plain eager CPU tensors. Saves the same."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        p_logit: Tensor,
        temperature: float,
        mask_shape: Sequence[int],
        generator: torch.Generator | None,
    ) -> Tensor:
        y, z = kernels.forward(x, p_logit.item(), temperature, mask_shape, generator)
        ctx.temperature = temperature
        ctx.save_for_backward(x, p_logit, z)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_y is None:
            return None, None, None, None, None
        # Gradients that must be differentiable themselves (create_graph), or are batched, need plain expressions.
        if torch.is_grad_enabled() or kernels.transforms_active():
            return _plain_gradients(ctx, grad_y, *ctx.saved_tensors)
        x, p_logit, z = ctx.saved_tensors
        needs_x, needs_logit = ctx.needs_input_grad[:2]
        grad_x, total = kernels.backward(grad_y, x, z, p_logit.item(), ctx.temperature, needs_logit)
        return grad_x if needs_x else None, torch.full_like(p_logit, total) if needs_logit else None, None, None, None


def _plain_gradients(ctx: Any, grad_y: Tensor, x: Tensor, p_logit: Tensor, z: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of all arguments of ``apply``, by expressions that can be differentiated again."""
    needs_x, needs_logit = ctx.needs_input_grad[:2]
    z = _reattached(z, p_logit, ctx.temperature)
    grad_x = _masked(grad_y, z, p_logit) if needs_x else None
    grad_logit = None
    if needs_logit:  # summed in float32 at least: products of fp16 values overflow
        slope = _slope(z, p_logit, ctx.temperature, x.dtype)
        total = (grad_y.to(slope.dtype) * x.to(slope.dtype) * slope).sum_to_size(p_logit.shape)
        grad_logit = total.to(p_logit.dtype)
    return grad_x, grad_logit, None, None, None


def _masked(x: Tensor, z: Tensor, p_logit: Tensor) -> Tensor:
    """Mask x by (1 - z) / (1 - p), rounding once at the end: a mask in bf16 would be off by up to 0.4 %."""
    return (x * ((1 - z.to(compute_dtype(x.dtype))) * retain_scale(p_logit, x.dtype))).to(x.dtype)


def _slope(z: Tensor, p_logit: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
    """d/dp_logit of (1 - z) / (1 - p), in float32 at least."""
    logit, z = p_logit.to(compute_dtype(dtype)), z.to(compute_dtype(dtype))
    return (1 - z) * retain_scale(logit, dtype) * (torch.sigmoid(logit) - z / temperature)


def _reattached(z: Tensor, p_logit: Tensor, temperature: float) -> Tensor:
    """Make z a function of p_logit again, by the noise that it must have come from; for derivatives of gradients."""
    if not (torch.is_grad_enabled() and p_logit.requires_grad):
        return z
    logit = p_logit.to(compute_dtype(z.dtype))
    noise = (temperature * torch.logit(z.to(logit.dtype)) - logit).detach()
    return torch.sigmoid((logit + noise) / temperature)


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
