"""Order and completeness of batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from lightning_fabric.utilities.distributed import DistributedSamplerWrapper
from torch import distributed

from concrete_dropout.data.batches import JoinedPasses, TensorRows


@pytest.fixture
def process_group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize(("num_rows", "length"), [(1, 5), (3, 3), (3, 8), (7, 4), (100, 128)])
def test_no_row_comes_again_before_all_have_come(num_rows, length):
    order = list(JoinedPasses(num_rows, length))
    assert len(order) == length == len(JoinedPasses(num_rows, length))
    for start in range(0, length, num_rows):
        rows = order[start : start + num_rows]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(num_rows))


def test_passes_are_shuffled_each_in_its_own_way():
    order = list(JoinedPasses(50, 100))
    assert order[:50] != sorted(order[:50])
    assert order[:50] != order[50:]


def test_every_order_is_equally_likely():
    num_draws = 6000
    counts = Counter(tuple(JoinedPasses(3, 3)) for _ in range(num_draws))
    chi_square = sum((count - num_draws / 6) ** 2 / (num_draws / 6) for count in counts.values())
    assert len(counts) == 6
    assert chi_square < 25.7  # the 0.9999 quantile of chi-square with 5 degrees of freedom


def test_the_order_follows_the_global_generator():
    sampler = JoinedPasses(20, 30)
    state = torch.get_rng_state()
    first, second = list(sampler), list(sampler)
    assert first != second
    torch.set_rng_state(state)
    assert (list(sampler), list(sampler)) == (first, second)


def test_the_whole_order_is_drawn_at_once():
    torch.manual_seed(1)
    expected = list(JoinedPasses(5, 20))
    torch.manual_seed(1)
    slow = iter(JoinedPasses(5, 20))
    got = [next(slow)]
    for row in slow:  # what a training step draws in between changes nothing
        torch.rand(3)
        got.append(row)
    assert got == expected


def test_processes_with_different_generators_share_one_order(process_group):
    shards = []
    for rank in range(2):
        torch.manual_seed(rank)
        sampler = DistributedSamplerWrapper(JoinedPasses(10, 10, seed=3), num_replicas=2, rank=rank)
        sampler.set_epoch(4)
        shards.append(list(sampler))
    assert sorted(shards[0] + shards[1]) == list(range(10))


def test_the_order_of_a_distributed_run_depends_on_seed_and_epoch(process_group):
    def order(seed: int, epoch: int) -> tuple[int, ...]:
        sampler = JoinedPasses(20, 20, seed=seed)
        sampler.set_epoch(epoch)
        return tuple(sampler)

    assert order(0, 1) == order(0, 1)
    assert len({order(seed, epoch) for seed in range(3) for epoch in range(3)}) == 9


def test_rows_are_fetched_singly_and_by_the_batch():
    x, y = torch.randn(6, 2), torch.randn(6, 1)
    rows = TensorRows(x, y)
    batch = rows.__getitems__([4, 0, 4])
    assert len(rows) == 6
    assert torch.equal(batch[0], x[[4, 0, 4]])
    assert torch.equal(batch[1], y[[4, 0, 4]])
    assert torch.equal(rows[3][0], x[3])
