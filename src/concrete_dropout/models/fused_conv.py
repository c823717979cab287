"""BatchNorm - ReLU - convolution as one operation on the CPU, forward and backward, on strips that stay in the cache.

    y = conv(relu(scale * x + shift))          scale and shift: BatchNorm as an affine map of each channel

The activations relu(...) of a dense block are many times its features, and written plainly they are made, read once
and kept for the backward pass. Here they exist for one strip of the image at a time, and are made again when the
backward pass needs them. The gradients of the convolution are matrix products with windows of grad y, which has few
channels: oneDNN's own weight gradient runs at a fifth of the speed of a matrix product for such shapes.

Pixels come first: features are (N, H, W, C), the memory of torch's channels_last format. Weights are as torch has
them, (G, C, k, k) with k = 3 or 1; the convolution keeps the size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

STRIP_ELEMENTS = 1 << 19  # activations of a strip: 2 MB
OUTPUT_GROUP = 8  # output channels that a convolution computes together


class ConvGradients(NamedTuple):
    """What the backward pass finds besides the gradients of x: those of the weight, and two sums over all pixels."""

    weight: Tensor  # (G, C, k, k)
    sums: Tensor  # (C,) of g, the gradient of scale * x + shift
    products: Tensor  # (C,) of g * x


class Scratch:
    """Memory that the strips of a call use one after the other, of the dtype and device of ``like``."""

    def __init__(self, like: Tensor) -> None:
        self._memory = like.new_empty(0)

    def cut(self, shape: Sequence[int]) -> Tensor:
        """A tensor of the given shape, in the place of the last one."""
        size = math.prod(shape)
        if self._memory.numel() < size:
            self._memory = self._memory.new_empty(size)
        return self._memory[:size].view(shape)


def norm_relu_conv(segments: Sequence[Tensor], scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve relu(scale * x + shift), where x are the ``segments`` side by side.

    Args:
        segments: features (N, H, W, C_i) in any strides, C in all.
        scale: (C,).
        shift: (C,).
        weight: (G, C, k, k).
        bias: (G,).

    Returns:
        (N, H, W, G), dense.

    >>> x, weight = torch.randn(1, 4, 5, 2), torch.randn(3, 2, 3, 3)
    >>> y = norm_relu_conv([x], torch.ones(2), torch.zeros(2), weight, torch.zeros(3))
    >>> plain = torch.conv2d(x.permute(0, 3, 1, 2).relu(), weight, padding=1)
    >>> torch.allclose(y, plain.permute(0, 2, 3, 1), atol=1e-5)
    True
    """
    count, height, width, _ = segments[0].shape
    outputs, channels, _, kernel = weight.shape
    out = segments[0].new_empty(count, height, width, outputs)
    scratch = Scratch(out)
    activations = _Activations(segments, scale, shift)
    if kernel > 1:
        missing = -outputs % OUTPUT_GROUP  # idle lanes: a convolution to 16 channels is faster than one to 12
        weight = pad(weight, (0, 0, 0, 0, 0, 0, 0, missing)).contiguous(memory_format=torch.channels_last)
        bias = pad(bias, (0, missing))
    for images, rows in strips(count, height, width, channels):
        h = activations.of(images, rows, scratch, margin=kernel // 2)
        if kernel == 1:
            torch.addmm(bias, h.flatten(0, 2), weight.flatten(1).t(), out=out[images, rows].flatten(0, 2))
        else:
            y = torch.conv2d(h.permute(0, 3, 1, 2), weight, bias, padding=(0, kernel // 2))
            out[images, rows] = y.permute(0, 2, 3, 1)[..., :outputs]
    return out


def norm_relu_conv_backward(
    grad: Tensor,
    segments: Sequence[Tensor],
    segment_grads: Sequence[Tensor],
    scale: Tensor,
    shift: Tensor,
    weight: Tensor,
) -> ConvGradients:
    """Add the gradient of x, with ``scale`` and ``shift`` held fixed, to ``segment_grads``; return the others.

    With g = the gradient of scale * x + shift, that is scale * g. BatchNorm's statistics depend on x as well: what
    comes from them follows from the two sums over g, and is left to the caller.

    Args:
        grad: of y, (N, H, W, G).
        segments: x, as in the forward pass.
        segment_grads: of the same shapes.
        scale: (C,).
        shift: (C,).
        weight: (G, C, k, k).
    """
    count, height, width, outputs = grad.shape
    channels, kernel = weight.shape[1], weight.shape[-1]
    margin = kernel // 2
    padded = pad(grad, (0, 0, margin, margin, margin, margin))
    # A window of grad y around a pixel meets the kernel upside down.
    matrix = weight.flip(2, 3).permute(2, 3, 0, 1).reshape(kernel * kernel * outputs, channels)
    weight_grad, (sums, products) = torch.zeros_like(matrix), matrix.new_zeros(2, channels)
    scratch = [Scratch(grad) for _ in range(3)]
    activations, scales = _Activations(segments, scale, shift), scale.split([x.shape[-1] for x in segments])
    for images, rows in strips(count, height, width, channels):
        windows = windows_of(padded, images, rows, kernel, scratch[0])  # (pixels, k * k * G)
        h = activations.of(images, rows, scratch[1])
        g = torch.mm(windows, matrix, out=scratch[2].cut((len(windows), channels)))
        weight_grad.addmm_(windows.t(), h.view_as(g))
        torch.ops.aten.threshold_backward.grad_input(g, h.view_as(g), 0, grad_input=g)  # 0 where the ReLU was
        sums += g.sum(0)
        pieces = zip(*(tensor.split(activations.sizes, dim=-1) for tensor in (g.view_as(h), h)), strict=True)
        for x, x_grad, x_scale, (g_part, h_part) in zip(segments, segment_grads, scales, pieces, strict=True):
            torch.mul(g_part, x[images, rows], out=h_part)  # h has done its duty
            x_grad[images, rows].addcmul_(g_part, x_scale)
        products += h.flatten(0, 2).sum(0)
    return ConvGradients(
        weight_grad.view(kernel, kernel, outputs, channels).permute(2, 3, 0, 1).flip(2, 3), sums, products
    )


def strips(count: int, height: int, width: int, channels: int) -> Iterator[tuple[slice, slice]]:
    """Cut images into pieces of about ``STRIP_ELEMENTS``: (images, rows), several whole images or some rows of one.

    >>> [(rows.start, rows.stop) for images, rows in strips(count=1, height=5, width=1024, channels=256)]
    [(0, 2), (2, 4), (4, 5)]
    """
    pixels = max(width, STRIP_ELEMENTS // channels)
    rows = min(height, pixels // width)
    images = max(1, pixels // (height * width))
    for first in range(0, count, images):
        for top in range(0, height, rows):
            yield slice(first, min(first + images, count)), slice(top, min(top + rows, height))


def windows_of(padded: Tensor, images: slice, rows: slice, kernel: int, scratch: Scratch, stride: int = 1) -> Tensor:
    """The k x k windows that belong to the rows of a strip, side by side.

    Args:
        padded: (N, H', W', G), dense; a window begins at every ``stride``-th row and column of it.
        images: of the strip.
        rows: of the strip, counted in windows.
        kernel: k.
        scratch: for the result.
        stride: between windows.

    Returns:
        (windows, k * k * G).
    """
    count, height = images.stop - images.start, rows.stop - rows.start
    width, channels = (padded.shape[2] - kernel) // stride + 1, padded.shape[3]
    image, row, pixel, _ = padded.stride()
    windows = padded[images, stride * rows.start :].as_strided(
        (count, height, width, kernel, kernel * channels), (image, stride * row, stride * pixel, row, 1)
    )
    return scratch.cut(windows.shape).copy_(windows).view(count * height * width, -1)


class _Activations:
    """relu(scale * x + shift), strip by strip."""

    def __init__(self, segments: Sequence[Tensor], scale: Tensor, shift: Tensor) -> None:
        self.sizes = [x.shape[-1] for x in segments]
        self._affine = list(zip(segments, scale.split(self.sizes), shift.split(self.sizes), strict=True))

    def of(self, images: slice, rows: slice, scratch: Scratch, margin: int = 0) -> Tensor:
        """The activations of a strip, (images, rows + 2 margin, W, C); rows outside of the image are 0."""
        _, height, width, _ = self._affine[0][0].shape
        first, last = rows.start - margin, rows.stop + margin
        top, bottom = max(first, 0), min(last, height)
        h = scratch.cut((images.stop - images.start, last - first, width, sum(self.sizes)))
        if margin:
            h[:, : top - first].zero_()
            h[:, bottom - first :].zero_()
        inside = h[:, top - first : bottom - first].split(self.sizes, dim=-1)
        for (x, scale, shift), room in zip(self._affine, inside, strict=True):
            torch.addcmul(shift, x[images, top:bottom], scale, out=room)
        return h.relu_()
