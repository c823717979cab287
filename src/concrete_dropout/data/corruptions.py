"""Corruptions of inputs in five severities, to see what a network says about data that are not quite its own.

They follow from the seed and the number of the batch alone. A corruption draws the same numbers at all severities, so
that a higher one is the same damage, only more of it. Pictures are float (B, C, H, W) from 0 to 1, rows standardised
(B, D).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SEVERITIES = (1, 2, 3, 4, 5)
Corrupt = Callable[[Tensor, int, torch.Generator], Tensor]

NOISE_STD = (0.06, 0.12, 0.2, 0.3, 0.45)  # of pixels from 0 to 1
BLUR_SIGMA = (0.02, 0.035, 0.05, 0.07, 0.1)  # of the shorter side
BRIGHTNESS = (0.1, 0.2, 0.3, 0.4, 0.55)  # added to every pixel
CONTRAST = (0.7, 0.5, 0.35, 0.22, 0.12)  # what is left of it
PIXELS = (0.75, 0.55, 0.4, 0.3, 0.2)  # what is left of height and width
DEGREES = (10.0, 20.0, 35.0, 50.0, 75.0)  # to the left or to the right
FEATURE_STD = (0.25, 0.5, 1.0, 2.0, 4.0)  # standard deviations of the training part, as in the next line
FEATURE_SHIFT = (0.25, 0.5, 1.0, 2.0, 4.0)
MISSING = (0.1, 0.2, 0.35, 0.5, 0.75)  # share of the values


def corrupted(x: Tensor, name: str, severity: int, seed: int, number: int = 0) -> Tensor:
    """A batch under a corruption; a new tensor of the same shape.

    Args:
        x: pictures from 0 to 1, or standardised rows.
        name: one of ``PICTURES`` or ``ROWS``.
        severity: 1 to 5.
        seed: of what is random about it.
        number: of the batch, which has its own random numbers.

    >>> x = torch.full((1, 1, 8, 8), 0.5)
    >>> [round(corrupted(x, "brightness", severity, seed=0).mean().item(), 2) for severity in SEVERITIES]
    [0.6, 0.7, 0.8, 0.9, 1.0]
    """
    corrupt = {**PICTURES, **ROWS}[name]
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed},{name},{number}".encode()))
    return corrupt(x, severity - 1, generator)


def gaussian_noise(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Independent noise on every pixel and channel."""
    return (x + NOISE_STD[level] * _normal(x, generator)).clamp(0, 1)


def blur(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """A Gaussian filter, with the edge pixels repeated outside."""
    height, width = x.shape[-2:]
    sigma = BLUR_SIGMA[level] * min(height, width)
    reach = max(1, math.ceil(3 * sigma))
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, device=x.device) / sigma).square()).to(x.dtype)
    kernel = kernel / kernel.sum()
    planes = F.pad(x.flatten(0, 1).unsqueeze(1), (reach,) * 4, mode="replicate")  # (B * C, 1, H + 2r, W + 2r)
    planes = F.conv2d(F.conv2d(planes, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1))
    return planes.view_as(x)


def brightness(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """All pixels brighter by the same amount."""
    return (x + BRIGHTNESS[level]).clamp(0, 1)


def contrast(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Pixels closer to the mean of their picture."""
    mean = x.mean((-3, -2, -1), keepdim=True)
    return mean + CONTRAST[level] * (x - mean)


def pixelate(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Fewer and larger pixels."""
    height, width = (max(1, round(PIXELS[level] * side)) for side in x.shape[-2:])
    return F.interpolate(F.adaptive_avg_pool2d(x, (height, width)), x.shape[-2:], mode="nearest")


def rotation(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Turned about the centre, each picture to a side of its own; what comes from outside is 0."""
    sign = 2 * torch.randint(2, (len(x),), generator=generator).to(x) - 1
    return rotated(x, sign * math.radians(DEGREES[level]))


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Pictures (B, C, H, W) turned by angles (B,) in radians."""
    height, width = x.shape[-2:]
    cos, sin = angles.cos(), angles.sin()
    zero = torch.zeros_like(cos)
    turn = torch.stack(  # in coordinates from -1 to 1, which differ in scale where the picture is no square
        [torch.stack([cos, -sin * height / width, zero], 1), torch.stack([sin * width / height, cos, zero], 1)], 1
    )
    grid = F.affine_grid(turn, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False).clamp(0, 1)


def feature_noise(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Independent noise on every value."""
    return x + FEATURE_STD[level] * _normal(x, generator)


def shift(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """All rows moved by the same vector: every feature up or down by so many standard deviations."""
    signs = 1 - 2 * (torch.arange(x.shape[1]) % 2)  # the same for all batches: every other feature goes down
    return x + FEATURE_SHIFT[level] * signs.to(x)


def missing(x: Tensor, level: int, generator: torch.Generator) -> Tensor:
    """Values replaced by the mean of the training part, which is 0."""
    return x.masked_fill((torch.rand(x.shape, generator=generator) < MISSING[level]).to(x.device), 0.0)


def _normal(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator).to(x)


PICTURES: dict[str, Corrupt] = {
    "gaussian_noise": gaussian_noise,
    "blur": blur,
    "brightness": brightness,
    "contrast": contrast,
    "pixelate": pixelate,
    "rotation": rotation,
}
ROWS: dict[str, Corrupt] = {"feature_noise": feature_noise, "shift": shift, "missing": missing}
