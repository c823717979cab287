"""The Concrete mask by compiled code, where that could be built when the package was installed.

``kernels`` does the same by torch operations. Here every element is read and written once, and backward draws the mask
again from the key of its noise, so that nothing is kept but the input.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from concrete_dropout.dropout.kernels import dense
from concrete_dropout.dropout.noise import FULL_RANGE_START

SWITCH = "CONCRETE_DROPOUT_NATIVE"  # 0 in the environment: do without
MAX_EXPONENT = 64
KEY_MASK = (1 << 64) - 1


def _load() -> ModuleType | None:
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        from concrete_dropout.dropout import _native
    except ImportError:
        return None
    return _native


_library = _load()


def available() -> bool:
    """Whether there is compiled code to use."""
    return _library is not None


@lru_cache(maxsize=256)
def exponent_of(temperature: float) -> int:
    """1 / temperature if the compiled code knows that power, else 0.

    >>> exponent_of(0.1), exponent_of(0.3)
    (10, 0)
    """
    inverse = 1 / temperature
    nearest = round(inverse) if inverse <= MAX_EXPONENT else 0
    return nearest if abs(nearest - inverse) < 1e-9 * inverse else 0


def draw_key(generator: torch.Generator | None) -> int:
    """The key of a new mask's noise: 64 bits of the generator, by default torch's own."""
    bits = torch.empty((), dtype=torch.int64, device="cpu").random_(FULL_RANGE_START, None, generator=generator)
    return int(bits.item()) & KEY_MASK


def forward(x: Tensor, logit: float, temperature: float, mask_shape: Sequence[int], key: int) -> Tensor:
    """Give ``x * (1 - z) / (1 - p)``, where z has ``mask_shape``: that of x, or one value per leading index."""
    x, exponent = _laid_out(x, mask_shape), exponent_of(temperature)
    y = torch.empty_like(x)
    if mask_shape == x.shape:
        _fill(y, x, key, logit, exponent, scaled=True)
    else:
        _channels(None, x, retained(mask_shape, logit, temperature, key), y, logit, exponent)
    return y


def backward(
    grad: Tensor, x: Tensor, logit: float, temperature: float, mask_shape: Sequence[int], key: int
) -> tuple[Tensor, float]:
    """Gradients of x and of the logit, for the mask that ``forward`` drew with the same key."""
    x, exponent = _laid_out(x, mask_shape), exponent_of(temperature)
    grad_x = torch.empty_like(x)
    grad = grad if grad.stride() == x.stride() else torch.empty_like(x).copy_(grad)
    if mask_shape == x.shape:
        total = _loaded().mask_backward(
            grad.data_ptr(), x.data_ptr(), grad_x.data_ptr(), x.numel(), key, logit, exponent, torch.get_num_threads()
        )
    else:
        keep = retained(mask_shape, logit, temperature, key)
        total = _channels(grad, x, keep, grad_x, logit, exponent)
    return grad_x, total


def retained(
    mask_shape: Sequence[int], logit: float, temperature: float, key: int, like: Tensor | None = None
) -> Tensor:
    """1 - z of the mask that belongs to ``key``, in the layout of ``like``."""
    keep = torch.empty(mask_shape, dtype=torch.float32, device="cpu")
    if like is not None:
        keep = torch.empty_like(dense(like))
    _fill(keep, None, key, logit, exponent_of(temperature), scaled=False)
    return keep


class Place(NamedTuple):
    """Where the noise of masks is taken from: one stream per sample."""

    key: int
    sample: int  # the first
    samples: int
    first: int = 0  # element of each stream


def fill_masks(out: Tensor, times: Tensor | None, place: Place, law: float, exponent: int) -> None:
    """Masks of consecutive samples, scaled by 1 / (1 - p), times a tensor of the same shape if there is one.

    Args:
        out: float32, contiguous, (samples, ...) or (samples * rows, ...), is overwritten.
        times: of the shape of ``out``; nothing is copied where it is float32, and contiguous or ``is_repeated``.
        place: of the noise.
        law: of soft masks logit p, of hard ones p.
        exponent: of soft masks ``exponent_of`` their temperature, of hard ones 0.
    """
    key, sample, samples, first = place
    shared = times is not None and is_repeated(times, samples)
    if times is not None and not (shared and times.dtype is torch.float32):
        times, shared = times.float().contiguous(), False
    address = 0 if times is None else times.data_ptr()
    size, threads = out.numel() // max(1, samples), torch.get_num_threads()
    _loaded().mask(address, out.data_ptr(), samples, size, first, key, sample, law, exponent, True, shared, threads)


def is_repeated(x: Tensor, samples: int) -> bool:
    """Whether the rows of ``x`` are the same memory, one for each of several samples.

    >>> is_repeated(torch.ones(1, 5).expand(3, 5), 3), is_repeated(torch.ones(3, 5), 3)
    (True, False)
    """
    return samples > 1 and x.shape[0] == samples and x.stride(0) == 0 and x[0].is_contiguous()


def stack_forward(x: Tensor, p_logit: Tensor, temperature: float, key: int) -> Tensor:
    """Soft masks for contiguous ``x`` (R, ...), those of replica r with the float32 logit ``p_logit[r]``."""
    y = torch.empty_like(x)
    _stack(None, x, y, None, p_logit, temperature, key)
    return y


def stack_backward(grad: Tensor, x: Tensor, p_logit: Tensor, temperature: float, key: int) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the logits, for the masks that ``stack_forward`` drew with the same key."""
    grad_x, grad_logit = torch.empty_like(x), torch.empty_like(p_logit)
    _stack(grad, x, grad_x, grad_logit, p_logit, temperature, key)
    return grad_x, grad_logit


def _stack(
    grad: Tensor | None,
    x: Tensor,
    out: Tensor,
    grad_logit: Tensor | None,
    p_logit: Tensor,
    temperature: float,
    key: int,
) -> None:
    addresses = (0 if tensor is None else tensor.data_ptr() for tensor in (grad, x, out, grad_logit, p_logit))
    replicas = p_logit.numel()
    size, threads = x.numel() // max(1, replicas), torch.get_num_threads()
    _loaded().stack(*addresses, replicas, size, key, exponent_of(temperature), threads)


def _laid_out(x: Tensor, mask_shape: Sequence[int]) -> Tensor:
    """The tensor in a layout that the compiled code knows for this mask."""
    per_channel = x.dim() == 4 and tuple(mask_shape) == (*x.shape[:2], 1, 1)
    return dense(x) if mask_shape == x.shape or per_channel else x.contiguous()


def _fill(out: Tensor, x: Tensor | None, key: int, logit: float, exponent: int, *, scaled: bool) -> None:
    """One mask over all elements of a dense tensor, in the order in which they lie in memory."""
    address, threads = 0 if x is None else x.data_ptr(), torch.get_num_threads()
    _loaded().mask(address, out.data_ptr(), 1, out.numel(), 0, key, 0, logit, exponent, scaled, False, threads)


def _channels(grad: Tensor | None, x: Tensor, keep: Tensor, out: Tensor, logit: float, exponent: int) -> float:
    rows, pixels, channels = keep.numel(), x.numel() // max(1, keep.numel()), 1
    if not x.is_contiguous():  # channels_last: (N, H * W, C)
        rows, channels = x.shape[:2]
    address, threads = 0 if grad is None else grad.data_ptr(), torch.get_num_threads()
    return _loaded().channels(
        address, x.data_ptr(), keep.data_ptr(), out.data_ptr(), rows, pixels, channels, logit, exponent, threads
    )


def _loaded() -> ModuleType:
    assert _library is not None
    return _library
