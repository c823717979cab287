from __future__ import annotations

import torch
from torch import nn

from concrete_dropout.prediction.memory import free_bytes, peak_bytes


def test_memory_of_a_pass_grows_with_the_pixels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)).eval()
    with torch.no_grad():
        small, large = (peak_bytes(lambda s=s: network(torch.zeros(1, 3, s, s))) for s in (32, 64))
    assert large == 4 * small
    assert small >= 4 * 32 * 32 * (8 + 8)  # the widest two live at the same time


def test_what_is_freed_does_not_count() -> None:
    def chain() -> None:
        x = torch.zeros(1000)
        for _ in range(50):
            x = x + 1

    assert peak_bytes(chain) == 8000


def test_there_is_some_memory() -> None:
    assert 1 << 20 < free_bytes(torch.device("cpu")) < 1 << 50
