"""What all segmentation data share: batches, order, randomness, sizes and settings."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, distributed, nn

from concrete_dropout.data.base import Part
from concrete_dropout.data.camvid_sets import CAMVID_LABELS
from concrete_dropout.data.label_files import Labels
from concrete_dropout.data.labelled_images import LabelledImages
from concrete_dropout.data.segmentation import VOID, SegmentationData
from concrete_dropout.errors import UserError

SIZES = {"train": [(30, 40)] * 7, "val": [(30, 40), (20, 44), (36, 20)], "test": [(10, 12)]}


class Noise(SegmentationData):
    """Random pixels; the green ones of an image are its number."""

    def __init__(self, sizes: Mapping[str, list[tuple[int, int]]] = SIZES, **loading) -> None:
        super().__init__(**{"crop": 16, "batch_size": 2, **loading})
        self.image_sizes = sizes

    @property
    def labels(self) -> Labels:
        return CAMVID_LABELS

    def load(self) -> Mapping[Part, LabelledImages]:
        random = np.random.default_rng(0)
        made = {}
        for part, sizes in self.image_sizes.items():
            planes = [random.integers(0, 11, (4, *size), dtype=np.uint8) * np.uint8(1) for size in sizes]
            for number, entry in enumerate(planes):
                entry[:3] *= 23
                entry[1] = number
            made[part] = LabelledImages.stack(planes, [f"{part}{number}" for number in range(len(sizes))])
        return made


def numbers(x: Tensor) -> list[int]:
    return (x[:, 1].amax((1, 2)) * 255).round().int().tolist()


def epoch(data: SegmentationData) -> list[tuple[Tensor, Tensor]]:
    return list(data.train_dataloader())


def same(first: list[tuple[Tensor, Tensor]], second: list[tuple[Tensor, Tensor]]) -> bool:
    return all(
        torch.equal(a, b) for one, other in zip(first, second, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_what_a_model_needs_to_know():
    data = Noise()
    spec = data.spec
    assert (spec.num_train, spec.num_images, spec.num_classes) == (7 * 30 * 40, 7, 11)
    assert spec.image_size == (36, 44)
    assert spec.class_names[3] == "Road"
    assert spec.class_colours[3] == (128, 64, 128)
    assert data.parts == ("train", "val", "test")
    assert data.steps_per_epoch == 4
    assert data.example_input.shape == (1, 3, 16, 16)
    assert Noise(crop=None).example_input.shape == (1, 3, 30, 40)
    assert Noise({"train": [(5, 6), (7, 4)]}).spec.image_size == (7, 6)
    assert Noise({"train": [(5, 6), (7, 4)]}).spec.num_train == 58


def test_training_batches_are_full_and_every_image_comes():
    batches = epoch(Noise(batch_size=3))
    assert [tuple(x.shape) for x, _ in batches] == [(3, 3, 16, 16)] * 3
    assert [tuple(y.shape) for _, y in batches] == [(3, 16, 16)] * 3
    assert batches[0][0].dtype == torch.float32
    assert batches[0][1].dtype == torch.int64
    order = [number for x, _ in batches for number in numbers(x)]
    assert sorted(order[:7]) == list(range(7))
    assert [x.shape[0] for x, _ in epoch(Noise(batch_size=20))] == [20]
    assert len(epoch(Noise(min_steps_per_epoch=11))) == 11


def test_crops_show_the_image_of_their_number():
    data = Noise(flips=False)
    for x, y in epoch(data):
        for row, number in enumerate(numbers(x)):
            whole = torch.from_numpy(data.mask("train", number)).long()
            windows = whole.unfold(0, 16, 1).unfold(1, 16, 1)
            assert (windows == y[row]).all((2, 3)).any()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs_follow_the_global_generator_whatever_the_workers(num_workers):
    torch.manual_seed(3)
    expected = [epoch(Noise()) for _ in range(3)]
    torch.manual_seed(3)
    loader = Noise(num_workers=num_workers).train_dataloader()
    first, state = list(loader), torch.get_rng_state()
    second, third = list(loader), list(loader)
    assert all(map(same, expected, [first, second, third]))
    assert not same(first, second)
    torch.set_rng_state(state)
    resumed = Noise(num_workers=num_workers).train_dataloader()
    assert same(list(resumed), second)
    assert same(list(resumed), third)


def test_evaluation_keeps_order_size_and_the_global_generator():
    data = Noise()
    state = torch.get_rng_state()
    batches = list(data.val_dataloader())
    assert torch.equal(torch.get_rng_state(), state)
    assert [tuple(y.shape[1:]) for _, y in batches] == SIZES["val"]
    for number, (x, y) in enumerate(batches):
        assert np.array_equal(y[0].numpy(), data.mask("val", number))
        assert np.array_equal(
            x[0].permute(1, 2, 0).numpy(), data.image("val", number).astype(np.float32) / np.float32(255)
        )
        assert data.name("val", number) == f"val{number}"
    assert data.num_images("val") == 3


def test_a_batch_of_different_sizes_is_padded():
    ((x, y),) = list(Noise(eval_batch_size=3).val_dataloader())
    assert y.shape == (3, 36, 44)
    assert (y[0, 30:] == VOID).all()
    assert (y != VOID).sum() == 30 * 40 + 20 * 44 + 36 * 20
    assert numbers(x) == [0, 1, 2]


def test_full_size_training_after_crops():
    data = Noise({"train": [(30, 40)] * 4 + [(20, 50)]})
    assert epoch(data)[0][0].shape == (2, 3, 16, 16)
    data.crop, data.batch_size = None, 1
    assert data.steps_per_epoch == 5
    assert sorted(tuple(x.shape) for x, _ in epoch(data)) == [(1, 3, 20, 50)] + [(1, 3, 30, 40)] * 4
    data.batch_size = 5
    assert [tuple(x.shape) for x, _ in epoch(data)] == [(5, 3, 30, 50)]


def test_parts_without_images_are_left_out():
    data = Noise({"train": [(8, 8)], "val": [], "test": [(8, 8)]})
    assert data.parts == ("train", "test")
    assert data.val_dataloader() == []
    with pytest.raises(ValueError, match="there is no 'val' part, only train, test"):
        data.image("val", 0)
    with pytest.raises(UserError, match="no training images"):
        Noise({"val": [(8, 8)]}).setup()


def test_fewer_training_images_are_a_part_of_more():
    def chosen(size: int, seed: int = 0) -> set[str]:
        data = Noise(train_size=size, seed=seed)
        assert data.spec.num_train == size * 1200
        return {data.name("train", number) for number in range(size)}

    sets = [chosen(size) for size in range(1, 8)]
    assert all(fewer < more for fewer, more in pairwise(sets))
    assert len({frozenset(chosen(3, seed)) for seed in range(6)}) > 1
    with pytest.raises(UserError, match=r"data\.train_size=8, but there are only 7 training images"):
        Noise(train_size=8).setup()


def test_standardised_training_images_have_no_mean_and_unit_variance():
    data = Noise(normalise="standardise", crop=None, batch_size=7, train_size=6, flips=False)
    x = data.items("train").__getitems__(list(range(6)))[0].double()
    assert x.mean((0, 2, 3)).abs().max() < 1e-6
    assert x.std((0, 2, 3), correction=0).numpy() == pytest.approx([1, 1, 1], abs=1e-6)
    # Validation images are measured by the training images.
    mean, std = (data._state().standardise.mean[:, 0, 0], data._state().standardise.std[:, 0, 0])
    expected = (data.image("val", 0) / 255 - mean) / std
    assert next(iter(data.val_dataloader()))[0][0].permute(1, 2, 0).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop": 0}, r"data\.crop=0 must be a whole number of at least 1"),
        ({"crop": 2.5}, r"data\.crop=2\.5"),
        ({"batch_size": 0}, r"data\.batch_size=0"),
        ({"eval_batch_size": 0}, r"data\.eval_batch_size=0"),
        ({"num_workers": -1}, r"data\.num_workers=-1"),
        ({"scale": 0}, r"data\.scale=0 must be above 0 and at most 1"),
        ({"scale": 2.0}, r"data\.scale=2\.0 must be above 0 and at most 1"),
        ({"scale": "half"}, r"data\.scale='half' must be a finite number"),
        (
            {"normalise": "standardize"},
            r"data\.normalise='standardize' is not one of scale, standardise\. Did you mean",
        ),
        ({"train_size": 0}, r"data\.train_size=0"),
        ({"min_steps_per_epoch": 0}, r"data\.min_steps_per_epoch=0"),
        ({"seed": -1}, r"data\.seed=-1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        Noise(**settings)


@pytest.fixture
def process_group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize(("processes", "length"), [(1, 8), (2, 8), (3, 12)])
def test_batches_are_full_in_every_process(process_group, monkeypatch, processes, length):
    monkeypatch.setattr(distributed, "get_world_size", lambda: processes)
    data = Noise()
    sampler = data.train_dataloader().sampler
    assert len(sampler) * processes == length  # every process has its share, of full batches
    assert len(sampler) % data.batch_size == 0
    assert data.steps_per_epoch == 4


class OneConvolution(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 11, 3, padding=1)
        self.seen: list[list[int]] = []

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        self.seen.append(numbers(batch[0]))
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1], ignore_index=VOID)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        assert self.layer(batch[0]).shape[2:] == batch[1].shape[1:]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def test_lightning_trains_with_it(tmp_path):
    data, module = Noise(), OneConvolution()
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, datamodule=data)
    order = [number for batch in module.seen for number in batch]
    assert len(order) == 16
    assert sorted(order[:7]) == sorted(order[8:15]) == list(range(7))
    assert order[:8] != order[8:]


def test_it_travels_to_other_processes():
    data = Noise()
    data.setup()
    assert np.array_equal(pickle.loads(pickle.dumps(data)).image("test", 0), data.image("test", 0))
