from __future__ import annotations

from pathlib import Path

import pytest
from torch.utils.data import DataLoader, DistributedSampler

from concrete_dropout.callbacks.evaluation import part_indices
from concrete_dropout.callbacks.stages import num_evaluated

from .conftest import MakeTrainer
from .vision import classification_task, digits


@pytest.mark.parametrize(("total", "world_size"), [(10, 1), (10, 2), (7, 2), (7, 3), (2, 3)])
def test_indices_are_those_of_the_sampler_that_lightning_uses(total: int, world_size: int) -> None:
    for rank in range(world_size):
        sampler = DistributedSampler(range(total), num_replicas=world_size, rank=rank, shuffle=False)
        drawn = list(sampler)
        # In batches of 3, as an evaluation sees them.
        found = [
            index
            for start in range(0, len(drawn), 3)
            for index in part_indices(start, min(3, len(drawn) - start), rank, world_size, total)
        ]
        assert found == drawn


@pytest.mark.parametrize(
    ("limit", "rows"), [({}, 359), ({"limit_test_batches": 2}, 200), ({"limit_test_batches": 0.5}, 200)]
)
def test_rows_of_an_evaluation(tmp_path: Path, make_trainer: MakeTrainer, limit: dict[str, float], rows: int) -> None:
    data = digits()
    trainer = make_trainer(tmp_path, **limit)
    trainer.test(classification_task(data), data, verbose=False)
    loader = data.test_dataloader()
    assert isinstance(loader, DataLoader)
    assert len(loader.dataset) == 359  # type: ignore[arg-type]
    assert num_evaluated(trainer, "test") == rows
    assert num_evaluated(trainer, "val") is None
