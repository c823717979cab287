"""Philox4x32 (Salmon et al., 2011) written with Python's integers: the reference for the compiled generator."""

from __future__ import annotations

import torch
from torch import Tensor

WORD = (1 << 32) - 1
LANES = 16


def philox(counter: tuple[int, int, int, int], key: tuple[int, int], rounds: int) -> tuple[int, int, int, int]:
    """Four random words of a counter of four words."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(rounds):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k0, right & WORD, (left >> 32) ^ d ^ k1, left & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return a, b, c, d


def philox_bits(key: int, size: int, *, first: int = 0, sample: int = 0) -> Tensor:
    """32 bits for each of ``size`` elements of a stream, as int64: sixteen counters give the words of 64 elements."""
    bits = []
    for element in range(first, first + size):
        group, place = divmod(element, 4 * LANES)
        word, lane = divmod(place, LANES)
        number = group * LANES + lane
        counter = (number & WORD, number >> 32, sample & WORD, sample >> 32)
        bits.append(philox(counter, (key & WORD, key >> 32), rounds=7)[word])
    return torch.tensor(bits, dtype=torch.int64)
