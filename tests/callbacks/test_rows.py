from __future__ import annotations

import pytest
import torch

from concrete_dropout.callbacks.rows import EvenRows


@pytest.mark.parametrize("num_rows", [1, 5, 10, 11, 20, 21, 99, 1000])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_rows_are_evenly_spaced_over_the_stream(num_rows: int, batch: int) -> None:
    rows = EvenRows(max_rows=10)
    for block in torch.arange(float(num_rows))[:, None].split(batch):
        rows.add(block)
    kept = rows.compute().squeeze(1)
    assert rows.num_seen == num_rows
    assert len(kept) == min(num_rows, 10)
    if num_rows > 10:
        gaps = kept.diff()
        assert kept[0] == 0
        assert gaps.max() <= max(1.5 * gaps.min(), gaps.min() + 1)
        assert num_rows - kept[-1] <= num_rows / 10 + 1
    else:
        assert torch.equal(kept, torch.arange(float(num_rows)))


def test_memory_is_bounded() -> None:
    rows = EvenRows(max_rows=100)
    for _ in range(200):
        rows.add(torch.zeros(50, 3))
        assert sum(len(block) for block in rows._blocks) <= 800
        assert all(block.untyped_storage().nbytes() == block.numel() * 4 for block in rows._blocks)


def test_nothing_seen() -> None:
    assert len(EvenRows(5).compute()) == 0
    with pytest.raises(ValueError, match="max_rows=0"):
        EvenRows(0)
