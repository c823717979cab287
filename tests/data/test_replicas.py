from __future__ import annotations

import pytest
import pytorch_lightning as pl
import torch

from concrete_dropout.data import SyntheticData
from concrete_dropout.data.replicas import ReplicatedData, StackedPasses
from concrete_dropout.errors import UserError


def make(*sizes: int, **settings: int) -> ReplicatedData:
    defaults = {"batch_size": 4, "eval_batch_size": 5, "num_val": 7, "num_test": 11}
    return ReplicatedData(
        [SyntheticData(num_data=size, seed=seed, **{**defaults, **settings}) for seed, size in enumerate(sizes)]
    )


def test_every_replica_has_passes_over_its_own_rows() -> None:
    data = make(6, 10, 10)
    batches = list(data.train_dataloader())
    assert len(batches) == len(data.train_dataloader()) == data.steps_per_epoch == 3
    x, y = (torch.stack(parts, 1).flatten(1, 2) for parts in zip(*batches, strict=True))  # (R, steps * B, ...)
    for index, replica in enumerate(data.replicas):
        own_x, own_y = replica.tensors("train")
        rows = [int((own_x[:, 0] == value).nonzero()) for value in x[index, :, 0]]
        torch.testing.assert_close(y[index], own_y[rows], rtol=0, atol=0)
        for start in range(0, len(rows), len(own_x)):
            one_pass = rows[start : start + len(own_x)]
            assert len(set(one_pass)) == len(one_pass)
    assert data.num_train == [6, 10, 10]


def test_orders_differ_between_replicas_and_epochs_and_follow_the_global_generator() -> None:
    passes = StackedPasses([50, 50], batch_size=50, steps=2)
    torch.manual_seed(1)
    first, second = torch.stack(list(passes)), torch.stack(list(passes))
    torch.manual_seed(1)
    again = torch.stack(list(passes))
    assert torch.equal(first, again)
    orders = [*first.flatten(0, 1), *second.flatten(0, 1)]
    assert all(order.sort().values.equal(torch.arange(50)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == len(orders)


def test_positions_are_uniform() -> None:
    orders = torch.stack(list(StackedPasses([4], batch_size=4, steps=20_000))).squeeze(1)
    for position in range(4):
        share = torch.bincount(orders[:, position], minlength=4) / len(orders)
        assert (share - 0.25).abs().max() < 5 * (0.25 * 0.75 / len(orders)) ** 0.5


def test_evaluation_is_one_replica_after_the_other() -> None:
    data = make(6, 10)
    state = torch.get_rng_state()
    loader = data.test_dataloader()
    assert not isinstance(loader, list)
    found = list(loader)
    assert torch.equal(torch.get_rng_state(), state)
    assert [(replica, number, len(x)) for replica, number, (x, _) in found] == [
        (0, 0, 5), (0, 1, 5), (0, 2, 1), (1, 0, 5), (1, 1, 5), (1, 2, 1),
    ]  # fmt: skip
    x = torch.cat([x for replica, _, (x, _) in found if replica == 1])
    assert torch.equal(x, data.replicas[1].tensors("test")[0])
    assert len(list(data.val_dataloader())) == 4


def test_parts_that_are_not_there() -> None:
    data = make(6, 10, num_val=0, num_test=0)
    assert data.val_dataloader() == data.test_dataloader() == []
    (batch,) = data.held_out_batches(0, 100)
    assert torch.equal(batch[0], data.replicas[0].tensors("train")[0])
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    data.trainer = trainer
    data.setup("fit")
    assert trainer.limit_val_batches == 0
    data.teardown("fit")
    assert trainer.limit_val_batches == 1.0
    held_out = [len(x) for x, _ in make(6, 10).held_out_batches(1, 4)]
    assert held_out == [4, 3]


def test_replicas_must_fit_together() -> None:
    with pytest.raises(UserError, match=r"data\.batch_size must be the same for all; got \[4, 8\]"):
        ReplicatedData([SyntheticData(batch_size=4), SyntheticData(batch_size=8)])
    with pytest.raises(ValueError, match="at least one"):
        ReplicatedData([])
