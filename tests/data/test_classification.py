"""Parts, subsets, loaders, and training through Lightning, on pictures that a test made."""

from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from concrete_dropout.data.classification import ClassificationData
from concrete_dropout.data.pictures import LabelledPictures, PictureSet, PicturesInMemory
from concrete_dropout.data.pixels import IMAGENET
from concrete_dropout.errors import UserError

CLASSES = ("ant", "bee", "cat")


class Given(ClassificationData):
    """Pictures that a test made."""

    def __init__(self, pictures: PictureSet, **loading: object) -> None:
        super().__init__(**loading)  # type: ignore[arg-type]
        self.given = pictures
        self.num_loads = 0

    def load(self) -> PictureSet:
        self.num_loads += 1
        return self.given


def labelled(count: int, channels: int, seed: int) -> LabelledPictures | None:
    """Pictures 4 x 5, the number of each in its first pixel; picture n is of class n modulo 3."""
    if not count:
        return None
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, channels, 4, 5), dtype=torch.uint8, generator=generator)
    pixels[:, 0, 0, 0] = torch.arange(count)
    return LabelledPictures(PicturesInMemory(pixels), torch.arange(count) % 3)


def pictures(train: int = 20, val: int = 7, test: int = 5, channels: int = 1) -> PictureSet:
    parts = [labelled(count, channels, seed) for seed, count in enumerate((train, val, test))]
    assert parts[0] is not None
    return PictureSet(parts[0], parts[1], parts[2], CLASSES)


def everything(part: LabelledPictures) -> Tensor:
    return part.pictures.take(torch.arange(len(part)))


def numbers(data: ClassificationData) -> list[int]:
    """Which pictures are trained on."""
    return everything(data.pictures.train)[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("channels", [1, 3])
def test_what_a_model_needs_to_know(channels):
    data = Given(pictures(channels=channels))
    spec = data.spec
    assert (spec.num_train, spec.num_classes, spec.class_names) == (20, 3, CLASSES)
    assert spec.input_shape == (channels, 4, 5)
    assert data.parts == ("train", "val", "test")
    values = everything(data.given.train).double() / 255
    assert data.scale.mean == pytest.approx(values.mean((0, 2, 3)).tolist())
    assert data.scale.std == pytest.approx(values.std((0, 2, 3), correction=0).tolist())
    assert data.example_input.shape == (1, channels, 4, 5)
    assert torch.equal(data.example_input, data.scale(everything(data.given.train)[:1]))


def test_a_given_scale_is_used():
    whole = pictures(channels=3)
    data = Given(PictureSet(whole.train, whole.val, whole.test, CLASSES, IMAGENET))
    assert data.scale is IMAGENET


def test_pictures_are_loaded_once_and_only_when_needed():
    data = Given(pictures())
    assert data.num_loads == 0
    data.setup("fit")
    data.setup("test")
    assert data.spec.num_train == 20
    assert data.num_loads == 1


@pytest.mark.parametrize(
    ("count", "batch_size", "min_steps", "steps"),
    [(20, 8, 1, 3), (16, 8, 1, 2), (1, 8, 1, 1), (5, 8, 10, 10), (20, 1, 3, 20)],
)
def test_training_batches_are_full(count, batch_size, min_steps, steps):
    data = Given(pictures(train=count), batch_size=batch_size, min_steps_per_epoch=min_steps)
    loader = data.train_dataloader()
    batches = list(loader)
    assert len(loader) == len(batches) == steps == data.steps_per_epoch
    assert {(tuple(x.shape), tuple(y.shape)) for x, y in batches} == {((batch_size, 1, 4, 5), (batch_size,))}
    assert {(x.dtype, y.dtype) for x, y in batches} == {(torch.float32, torch.int64)}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_epoch_has_every_picture_with_its_own_label(num_workers):
    data = Given(pictures(train=20), batch_size=4, num_workers=num_workers)
    x, y = (torch.cat(parts) for parts in zip(*data.train_dataloader(), strict=True))
    expected = data.scale(everything(data.given.train))
    order = (x.flatten(1).unsqueeze(1) == expected.flatten(1)).all(2).int().argmax(1)
    assert sorted(order.tolist()) == list(range(20))
    assert order.tolist() != sorted(order.tolist())
    assert torch.equal(y, order % 3)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_evaluation_batches_are_in_order_and_complete(num_workers):
    data = Given(pictures(), eval_batch_size=3, num_workers=num_workers, augment="flip_shift")
    loader = data.val_dataloader()
    assert not isinstance(loader, list)
    batches = list(loader)
    assert [len(x) for x, _ in batches] == [3, 3, 1]
    assert torch.equal(torch.cat([x for x, _ in batches]), data.scale(everything(data.given.val)))
    assert torch.cat([y for _, y in batches]).tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_evaluation_leaves_the_global_generator_alone():
    data = Given(pictures())
    before = torch.get_rng_state()
    for loader in (data.val_dataloader(), data.test_dataloader()):
        assert len(list(loader)) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_single_pictures_are_those_of_a_batch():
    rows = Given(pictures()).train_dataloader().dataset
    x, y = rows[3]
    assert torch.equal(x, rows.__getitems__([5, 3])[0][1])
    assert int(y) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_original_pictures_by_number(channels):
    data = Given(pictures(channels=channels))
    image = data.image("test", 3)
    original = everything(data.given.test)[3].numpy()
    assert image.dtype == np.uint8
    assert np.array_equal(image, original[0] if channels == 1 else original.transpose(1, 2, 0))
    assert data.label_name("test", 3) == "test 3"


def test_absent_parts():
    data = Given(pictures(val=0, test=0))
    assert data.parts == ("train",)
    assert data.val_dataloader() == []
    assert data.test_dataloader() == []
    with pytest.raises(ValueError, match="no 'val' part, only train"):
        data.image("val", 0)


def test_smaller_training_sets_are_subsets_of_larger_ones():
    chosen = [numbers(Given(pictures(), train_size=size)) for size in (3, 8, 15, 20)]
    assert [len(rows) for rows in chosen] == [3, 8, 15, 20]
    for small, large in pairwise(chosen):
        assert set(small) < set(large)
        assert large == sorted(large)
    assert chosen[-1] == numbers(Given(pictures()))


def test_a_training_set_follows_the_seed_and_sets_scale_and_length():
    def rows(seed: int) -> tuple[int, ...]:
        return tuple(numbers(Given(pictures(), train_size=6, seed=seed)))

    assert rows(4) == rows(4)
    assert len({rows(seed) for seed in range(5)}) == 5
    data = Given(pictures(), train_size=6, batch_size=4)
    assert data.spec.num_train == 6
    assert data.steps_per_epoch == 2
    assert data.scale.mean[0] == pytest.approx(float(everything(data.pictures.train).double().mean()) / 255)
    assert torch.equal(data.pictures.train.labels, torch.tensor(numbers(data)) % 3)


def test_classes_that_are_never_shown_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        Given(pictures(train=20)).setup()
        assert caplog.text == ""
        Given(pictures(train=2)).setup()
    assert "No training picture shows cat;" in caplog.text


@pytest.mark.parametrize("augment", ["flip", "shift", "flip_shift"])
def test_augmentation_follows_the_order_whatever_the_workers_do(augment):
    def epochs(num_workers: int) -> list[Tensor]:
        torch.manual_seed(3)
        data = Given(pictures(train=40), batch_size=8, num_workers=num_workers, augment=augment)
        loader = data.train_dataloader()
        return [torch.cat([x for x, _ in loader]) for _ in range(2)]

    alone, helped = epochs(num_workers=0), epochs(num_workers=2)
    assert all(torch.equal(*pair) for pair in zip(alone, helped, strict=True))
    # The same pictures in another order, and changed in another way.
    plain = Given(pictures(train=40)).scale(everything(pictures(train=40).train))
    assert all((x.flatten(1).unsqueeze(1) == plain.flatten(1)).all(2).any(1).float().mean() < 0.9 for x in alone)
    assert not torch.equal(*alone)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch_size", 0),
        ("eval_batch_size", True),
        ("num_workers", -1),
        ("min_steps_per_epoch", 0),
        ("train_size", 0),
        ("train_size", 2.5),
        ("seed", -1),
    ],
)
def test_wrong_settings_are_named(key, value):
    with pytest.raises(UserError, match=rf"data\.{key}={value!r} must be a whole number of at least"):
        Given(pictures(), **{key: value})


def test_wrong_choices_and_sizes_are_named():
    with pytest.raises(UserError, match=r"data\.augment='flop' is not one of none, flip.* Did you mean flip\?"):
        Given(pictures(), augment="flop")
    with pytest.raises(UserError, match=r"data\.train_size=21 is more than the 20 pictures of the training part"):
        Given(pictures(), train_size=21).setup()


def test_pictures_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"uint8 \(N, C, H, W\), not torch.float32 \(3, 2\)"):
        PicturesInMemory(torch.zeros(3, 2))
    with pytest.raises(ValueError, match="3 pictures and 4 labels"):
        LabelledPictures(PicturesInMemory(torch.zeros(3, 1, 2, 2, dtype=torch.uint8)), torch.zeros(4))


class Linear(pl.LightningModule):
    """Logistic regression, which keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Flatten(), nn.Linear(20, 3))
        self.seen: dict[str, list[Tensor]] = {"train": [], "val": [], "test": []}

    def _step(self, part: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        self.seen[part].append(x)
        return nn.functional.cross_entropy(self.layer(x), y)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return self._step("train", batch)

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self._step("val", batch)

    def test_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self._step("test", batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(**settings: object) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **settings,  # type: ignore[arg-type]
    )


def test_fit_and_test_through_lightning():
    data, model = Given(pictures(), batch_size=8, eval_batch_size=4), Linear()
    runner = trainer(max_epochs=2)
    runner.fit(model, datamodule=data)
    runner.test(model, datamodule=data)
    assert [len(x) for x in model.seen["train"]] == 6 * [8]
    assert torch.equal(torch.cat(model.seen["val"]), data.scale(everything(data.given.val)).repeat(2, 1, 1, 1))
    assert torch.equal(torch.cat(model.seen["test"]), data.scale(everything(data.given.test)))
    assert data.num_loads == 1


@pytest.mark.parametrize("augment", ["none", "flip_shift"])
def test_training_is_the_same_with_and_without_validation(augment):
    orders = []
    for val in (7, 0):
        torch.manual_seed(5)
        data, model = Given(pictures(val=val), batch_size=8, augment=augment), Linear()
        trainer(max_epochs=3).fit(model, datamodule=data)
        assert bool(model.seen["val"]) == (val > 0)
        orders.append(torch.cat(model.seen["train"]))
    assert torch.equal(*orders)
