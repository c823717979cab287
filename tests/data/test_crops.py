"""Crops, flips and padding against plain slicing, and where their randomness comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from lightning_fabric.utilities.distributed import DistributedSamplerWrapper
from torch import distributed

from concrete_dropout.data.crops import CropDraws, Draw, ImageBatches, Standardise
from concrete_dropout.data.labelled_images import VOID, LabelledImages


@pytest.fixture
def process_group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def random_images(*sizes: tuple[int, int]) -> LabelledImages:
    random = np.random.default_rng(0)
    planes = [random.integers(0, 256, (4, *size), dtype=np.uint8) for size in sizes]
    for entry in planes:
        entry[3] %= 11
    return LabelledImages.stack(planes, map(str, range(len(sizes))))


@pytest.fixture
def images() -> LabelledImages:
    return random_images((9, 12), (20, 8), (8, 8))


def test_draws_follow_the_global_generator():
    draws = CropDraws(20, 30, flips=True)
    state = torch.get_rng_state()
    first, second = list(draws), list(draws)
    assert first != second
    torch.set_rng_state(state)
    assert (list(draws), list(draws)) == (first, second)
    assert len(draws) == 30
    assert Counter(Counter(draw.number for draw in first).values()) == {1: 10, 2: 10}


def test_all_draws_are_made_at_once():
    torch.manual_seed(1)
    expected = list(CropDraws(5, 20, flips=True))
    torch.manual_seed(1)
    slow = iter(CropDraws(5, 20, flips=True))
    got = [next(slow)]
    for draw in slow:  # what a training step draws in between changes nothing
        torch.rand(3)
        np.random.rand(3)
        got.append(draw)
    assert got == expected


def test_places_and_flips_are_uniform():
    draws = list(CropDraws(100, 20_000, flips=True))
    for values in ([draw.down for draw in draws], [draw.right for draw in draws]):
        counts = np.histogram(values, bins=10, range=(0, 1))[0]
        assert ((counts - 2000) ** 2 / 2000).sum() < 33.7  # the 0.9999 quantile of chi-square with 9 degrees of freedom
    assert abs(np.mean([draw.flip for draw in draws]) - 0.5) < 4 * 0.5 / 20_000**0.5
    assert abs(np.corrcoef([[draw.down, draw.right, draw.flip] for draw in draws], rowvar=False)[0, 1:]).max() < 0.03
    assert not any(draw.flip for draw in CropDraws(100, 1000, flips=False))


def test_processes_share_one_list_and_see_different_crops(process_group):
    shards = []
    for rank in range(2):
        torch.manual_seed(rank)
        sampler = DistributedSamplerWrapper(CropDraws(10, 20, True, seed=3), num_replicas=2, rank=rank)
        sampler.set_epoch(4)
        shards.append(list(sampler))
    assert len(shards[0]) == len(shards[1]) == 10
    assert sorted(draw.number for shard in shards for draw in shard) == sorted([*range(10)] * 2)
    assert len({draw.down for shard in shards for draw in shard}) == 20


def test_draws_of_a_distributed_run_depend_on_seed_and_epoch(process_group):
    def places(seed: int, epoch: int) -> tuple[float, ...]:
        draws = CropDraws(5, 5, True, seed)
        draws.set_epoch(epoch)
        return tuple(draw.right for draw in draws)

    assert places(0, 1) == places(0, 1)
    assert len({places(seed, epoch) for seed in range(3) for epoch in range(3)}) == 9


def test_a_crop_is_a_slice(images):
    x, y = ImageBatches(images, crop=8).__getitems__([Draw(0, 0.6, 0.3), Draw(1, 0.999, 0.999), Draw(2, 0.5, 0.5)])
    assert (x.dtype, y.dtype, x.is_contiguous()) == (torch.float32, torch.int64, True)
    for row, (number, top, left) in enumerate([(0, 1, 1), (1, 12, 0), (2, 0, 0)]):
        cut = images.planes(number)[:, top : top + 8, left : left + 8]
        assert np.array_equal(x[row].numpy(), cut[:3].astype(np.float32) / np.float32(255))
        assert np.array_equal(y[row].numpy(), cut[3])


def test_a_flip_mirrors_image_and_labels(images):
    batches = ImageBatches(images, crop=8)
    straight, mirrored = (batches[Draw(0, 0.9, 0.7, flip)] for flip in (False, True))
    assert torch.equal(mirrored[0], straight[0].flip(-1))
    assert torch.equal(mirrored[1], straight[1].flip(-1))


def test_every_place_is_as_likely_as_any_other(images):
    batches = ImageBatches(LabelledImages.stack([np.arange(36, dtype=np.uint8).reshape(1, 6, 6).repeat(4, 0)], "a"), 4)
    corners = Counter(int(batches[draw][1][0, 0]) for draw in CropDraws(1, 9000, flips=False))
    assert set(corners) == {6 * row + column for row in range(3) for column in range(3)}
    assert sum((count - 1000) ** 2 / 1000 for count in corners.values()) < 31.8  # chi-square, 8 degrees of freedom


def test_small_images_are_put_somewhere_in_the_crop():
    images = random_images((3, 9))
    x, y = ImageBatches(images, crop=6)[Draw(0, down=0.5, right=0.5)]
    cut = images.planes(0)[:, :, 2:8]
    assert np.array_equal(y[2:5].numpy(), cut[3])
    assert np.array_equal(x[:, 2:5].numpy(), cut[:3].astype(np.float32) / np.float32(255))
    assert (y[:2] == VOID).all()
    assert (y[5:] == VOID).all()
    assert not x[:, :2].any()
    assert not x[:, 5:].any()
    tops = {
        int((entry[1] != VOID).nonzero()[0, 0])
        for entry in map(ImageBatches(images, 6).__getitem__, CropDraws(1, 99, True))
    }
    assert tops == {0, 1, 2, 3}


def test_whole_images_of_different_sizes_are_padded_at_the_bottom_and_right(images):
    x, y = ImageBatches(images).__getitems__([0, 1])
    assert (x.shape, y.shape) == ((2, 3, 20, 12), (2, 20, 12))
    for row, (height, width) in enumerate([(9, 12), (20, 8)]):
        assert np.array_equal(y[row, :height, :width].numpy(), images.mask(row))
        assert (y[row, height:] == VOID).all()
        assert (y[row, :, width:] == VOID).all()
        assert not x[row, :, height:].any()
        assert not x[row, :, :, width:].any()
    assert ImageBatches(images)[1][0].shape == (3, 20, 8)


def test_standardised_values(images):
    mean, std = np.array([0.1, 0.2, 0.3], np.float32), np.array([0.5, 2, 1], np.float32)
    standardise = Standardise(mean.reshape(3, 1, 1), std.reshape(3, 1, 1))
    x, y = ImageBatches(images, 10, standardise)[Draw(0)]
    expected = (images.image(0)[:, :10] / 255 - mean) / std
    assert x[:, :9].numpy() == pytest.approx(expected.transpose(2, 0, 1), abs=1e-6)
    assert not x[:, 9].any()  # padding is 0 to the network, whatever 0 is in the file
    assert (y[9] == VOID).all()
