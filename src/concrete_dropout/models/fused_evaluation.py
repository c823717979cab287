"""The evaluation pass of a dense block by fused convolutions, for stochastic passes above all.

BatchNorm is an affine map then, and new features are written where the next layer reads them. Input channels that are
the same in every stochastic pass (the stem's) add the same to each convolution every time, since that is linear in its
input: this share is computed by a function of its own, whose result ``PrefixCache`` finds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import wrap_torch_function

from concrete_dropout.models.fused_conv import norm_relu_conv
from concrete_dropout.models.fused_training import channels_second, pixels_first


def evaluate_features(layers: Sequence[Any], parts: Sequence[Tensor], shared: int | None = None) -> Tensor:
    """The features of layers with BatchNorm in eval mode, without gradients; dropout does as it is set.

    Args:
        layers: modules with ``norm``, ``conv`` and ``dropout``. Each sees the input and all features in front of it.
        parts: the input, (N, C_i, H, W), in one or several parts.
        shared: number of the part that is the same in every stochastic pass, if there is one.

    Returns:
        The new features, (N, L G, H, W) in channels_last format.
    """
    shares = [None if shared is None else _share(layer, parts, shared) for layer in layers]
    with torch._C.DisableTorchFunction():  # the rest is new in every pass: PrefixCache need not look at it
        old = [pixels_first(part) for part in parts]  # (N, H, W, C_i)
        if len(layers) == 1:
            return channels_second(_dropped(layers[0].dropout, _convolution(layers[0], old, shared, shares[0])))
        new = old[0].new_empty(*old[0].shape[:3], sum(layer.conv.out_channels for layer in layers))
        start = 0
        for layer, share in zip(layers, shares, strict=True):
            y = _convolution(layer, [*old, new[..., :start]], shared, share)
            new[..., start : start + y.shape[-1]] = _dropped(layer.dropout, y)
            start += y.shape[-1]
        return channels_second(new)


def _dropped(dropout: Any, y: Tensor) -> Tensor:
    """Dropout of (N, H, W, G). The strides of a single image are ambiguous: made such that all of torch agrees."""
    return pixels_first(dropout(channels_second(y))).flatten(0, 2).view(y.shape)


def _convolution(layer: Any, segments: list[Tensor], shared: int | None, share: Tensor | None) -> Tensor:
    """A layer up to its convolution, (N, H, W, G), given the share of the segment that is shared."""
    norm, weight, bias = layer.norm, layer.conv.weight, layer.conv.bias
    scale, shift = _affine(norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps)
    if shared is None or share is None:
        return norm_relu_conv(segments, scale, shift, weight, bias)
    start = sum(segment.shape[-1] for segment in segments[:shared])
    stop = start + segments[shared].shape[-1]
    if stop - start == len(scale):
        return share
    rest = [*range(start), *range(stop, len(scale))]
    segments = [*segments[:shared], *segments[shared + 1 :]]
    return norm_relu_conv(segments, scale[rest], shift[rest], weight[:, rest], torch.zeros_like(bias)).add_(share)


def _share(layer: Any, parts: Sequence[Tensor], shared: int) -> Tensor:
    norm, conv = layer.norm, layer.conv
    start = sum(part.shape[1] for part in parts[:shared])
    statistics = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    out: Tensor = share_of_convolution(parts[shared], start, *statistics, norm.eps, conv.weight, conv.bias)
    return out


@wrap_torch_function(lambda x, *_: (x,))
def share_of_convolution(
    x: Tensor,
    start: int,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
    weight: Tensor,
    bias: Tensor,
) -> Tensor:
    """What channels ``start``, ... of the input, which are ``x``, add to a layer's convolution, (N, H, W, G).

    A torch function to modes like ``PrefixCache``, of tensors that they know: x and parameters of the model.
    """
    part = slice(start, start + x.shape[1])
    scale, shift = _affine(gamma[part], beta[part], mean[part], var[part], eps)
    return norm_relu_conv([pixels_first(x)], scale, shift, weight[:, part], bias)


def _affine(gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    scale = gamma * (var + eps).rsqrt_()
    return scale, beta - mean * scale
