"""The training pass of a dense block by fused convolutions: the plain block's results in less time and memory.

All layers of a block read one buffer of features. What the plain block does for each layer that reads a feature is
done once per feature here:

- its copy into a concatenation;
- its mean and variance over the batch, which BatchNorm takes of each channel by itself;
- in the backward pass, what comes back through these statistics: it is k0 + k1 * x for every layer, so k0 and k1 are
  added up until the gradient of the feature is needed.

Dropout layers draw their masks themselves: a mask is what they make of ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kinds import is_channelwise
from concrete_dropout.models.fused_conv import norm_relu_conv, norm_relu_conv_backward


def train_features(layers: Sequence[Any], parts: Sequence[Tensor]) -> Tensor:
    """The features of layers with BatchNorm in training mode; updates its running statistics.

    Args:
        layers: modules with ``norm``, ``conv`` and ``dropout``. Each sees the input and all features in front of it.
        parts: the input, (N, C_i, H, W), in one or several parts.

    Returns:
        The new features, (N, L G, H, W) in channels_last format.
    """
    count, _, height, width = parts[0].shape
    tensors: list[Tensor | None] = []
    for layer in layers:
        mask = _mask(layer.dropout, parts[0], layer.conv.out_channels)
        tensors += [layer.norm.weight, layer.norm.bias, layer.conv.weight, layer.conv.bias, mask]
    out, mean, var = _TrainFeatures.apply(layers[0].norm.eps, len(parts), *parts, *tensors)
    for layer in layers:
        _update_running_statistics(layer.norm, mean, var, count * height * width)
    return out


class _Layer(NamedTuple):
    """The tensors of a BatchNorm - ReLU - convolution - dropout layer."""

    gamma: Tensor  # (C,)
    beta: Tensor
    weight: Tensor  # (G, C, k, k)
    bias: Tensor  # (G,)
    mask: Tensor | None  # (N, G, 1, 1) or (N, G, H, W)

    def affine(self, mean: Tensor, inverse_std: Tensor) -> tuple[Tensor, Tensor]:
        """BatchNorm as scale and shift of each of the first C channels."""
        scale = self.gamma * inverse_std[: len(self.gamma)]
        return scale, self.beta - mean[: len(scale)] * scale


class _TrainFeatures(torch.autograd.Function):
    """(parts, tensors of the layers) -> (new features, mean, variance), the last two of all channels."""

    @staticmethod
    def forward(ctx: Any, eps: float, num_parts: int, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts, layers = tensors[:num_parts], _as_layers(tensors[num_parts:])
        parts = tuple(part.contiguous(memory_format=torch.channels_last) for part in parts)
        old = [pixels_first(part) for part in parts]  # (N, H, W, C_i)
        new = old[0].new_empty(*old[0].shape[:3], sum(len(layer.bias) for layer in layers))
        mean, var = (torch.cat(rows) for rows in zip(*map(_moments, parts), strict=True))
        start = 0
        for layer in layers:
            scale, shift = layer.affine(mean, (var + eps).rsqrt_())
            y = norm_relu_conv([*old, new[..., :start]], scale, shift, layer.weight, layer.bias)
            if layer.mask is not None:
                y *= pixels_first(layer.mask)
            new[..., start : start + y.shape[-1]] = y
            start += y.shape[-1]
            mean, var = (torch.cat(rows) for rows in zip((mean, var), _moments(channels_second(y)), strict=True))
        ctx.save_for_backward(*parts, new, mean, (var + eps).rsqrt_(), *tensors[num_parts:])
        ctx.num_parts = num_parts
        ctx.mark_non_differentiable(mean, var)
        return channels_second(new), mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # only once: checkpointing computes them when they are asked for
        old = [pixels_first(part) for part in saved[: ctx.num_parts]]
        new, mean, inverse_std, *tensors = saved[ctx.num_parts :]
        inputs, pixels = sum(part.shape[-1] for part in old), new[..., 0].numel()
        old_grads = [torch.zeros_like(part) for part in old]
        new_grad = pixels_first(grad).clone(memory_format=torch.contiguous_format)
        k0, k1 = torch.zeros_like(mean), torch.zeros_like(mean)
        grads: list[Tensor | None] = []
        stop = new.shape[-1]
        for layer in reversed(_as_layers(tensors)):
            start = stop - len(layer.bias)
            y, part = new[..., start:stop], slice(inputs + start, inputs + stop)
            y_grad = torch.addcmul(k0[part], y, k1[part]).add_(new_grad[..., start:stop])
            mask_grad = None
            if layer.mask is not None:
                mask_grad = _mask_gradient(y_grad, y, layer.mask) if layer.mask.requires_grad else None
                y_grad *= pixels_first(layer.mask)
            scale, shift = layer.affine(mean, inverse_std)
            weight_grad, sums, products = norm_relu_conv_backward(
                y_grad, [*old, new[..., :start]], [*old_grads, new_grad[..., :start]], scale, shift, layer.weight
            )
            seen = slice(0, len(scale))
            gamma_grad = (products - mean[seen] * sums) * inverse_std[seen]
            slope = scale * inverse_std[seen] * gamma_grad / pixels
            k1[seen] -= slope
            k0[seen] -= scale * sums / pixels - slope * mean[seen]
            grads = [gamma_grad, sums, weight_grad, _pixel_sums(y_grad).sum(0), mask_grad, *grads]
            stop = start
        sizes = [*(part.shape[-1] for part in old), new.shape[-1]]
        for x, x_grad, x_k0, x_k1 in zip(old, old_grads, k0.split(sizes), k1.split(sizes), strict=False):
            x_grad.addcmul_(x, x_k1).add_(x_k0)
        return None, None, *map(channels_second, old_grads), *grads


def pixels_first(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, H, W, C), a view."""
    return x.permute(0, 2, 3, 1)


def channels_second(x: Tensor) -> Tensor:
    """(N, H, W, C) -> (N, C, H, W), a view."""
    return x.permute(0, 3, 1, 2)


def _as_layers(tensors: Sequence[Any]) -> list[_Layer]:
    size = len(_Layer._fields)
    return [_Layer(*tensors[start : start + size]) for start in range(0, len(tensors), size)]


def _mask(dropout: _DropoutNd, x: Tensor, channels: int) -> Tensor | None:
    """What a dropout multiplies new features of the size of ``x`` with."""
    if not dropout.training or dropout.p == 0:
        return None
    count, _, height, width = x.shape
    if not is_channelwise(dropout):
        mask: Tensor = dropout(channels_second(x.new_ones(count, height, width, channels)))
        return mask
    # Two pixels, which share their mask: a single one would be drawn like an entry of an element-wise mask.
    mask = dropout(x.new_ones(count, channels, 1, min(2, height * width)))
    return mask[..., :1]


def _mask_gradient(y_grad: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Gradient of a mask, from masked features y; where it is 0, so is the slope of a Concrete mask, and so is this."""
    products = y_grad * y
    if mask.shape[2:] == (1, 1):
        return (_pixel_sums(products)[..., None, None] / mask).masked_fill_(mask == 0, 0)
    return (channels_second(products) / mask).masked_fill_(mask == 0, 0)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (over the number of pixels) of each channel of a channels_last tensor (N, C, H, W)."""
    mean, var = torch.batch_norm_update_stats(x, None, None, 0.0)
    return mean, var


def _pixel_sums(x: Tensor) -> Tensor:
    """(N, H, W, C) -> (N, C). Over rows first: a sum along few channels would leave most of a vector unit idle."""
    count, _, width, channels = x.shape
    return x.flatten(2).sum(1).view(count, width, channels).sum(1)


@torch.no_grad()
def _update_running_statistics(norm: nn.BatchNorm2d, mean: Tensor, var: Tensor, pixels: int) -> None:
    if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
        return
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked += 1
    momentum = 1 / norm.num_batches_tracked.item() if norm.momentum is None else norm.momentum
    seen = slice(0, norm.num_features)
    norm.running_mean.lerp_(mean[seen], momentum)
    norm.running_var.lerp_(var[seen] * (pixels / (pixels - 1)), momentum)
