"""Standardisation, loaders, and training through Lightning."""

from __future__ import annotations

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from concrete_dropout.data import RegressionData, Table, Tables
from concrete_dropout.errors import UserError


class Given(RegressionData):
    """Tables that a test made."""

    def __init__(self, tables: Tables, **loading: int) -> None:
        super().__init__(**loading)
        self.given = tables
        self.num_loads = 0

    def load(self) -> Tables:
        self.num_loads += 1
        return self.given


def table(num_rows: int, seed: int = 0) -> Table:
    """Three features on very different scales, two targets."""
    draws = np.random.default_rng(seed).standard_normal((num_rows, 5))
    return Table(draws[:, :3] * [1.0, 1e-3, 1e6] + [0.0, 5.0, 1e9], draws[:, 3:] * 4 - 7)


def tables(train: int = 20, val: int = 7, test: int = 5) -> Tables:
    parts = [table(rows, seed) if rows else None for seed, rows in enumerate((train, val, test))]
    assert parts[0] is not None
    return Tables(parts[0], parts[1], parts[2], ("a", "b", "c"), ("y", "z"))


def test_scales_are_those_of_the_training_part():
    given = tables()
    data = Given(given)
    spec = data.spec
    assert spec.inputs.mean.numpy() == pytest.approx(given.train.x.mean(0), rel=1e-12)
    assert spec.targets.std.numpy() == pytest.approx(given.train.y.std(0), rel=1e-12)
    assert (spec.num_train, spec.num_inputs, spec.num_outputs) == (20, 3, 2)
    assert (spec.feature_names, spec.target_names) == (("a", "b", "c"), ("y", "z"))
    x, y = data.tensors("train")
    for values in (x, y):
        assert values.dtype == torch.float32
        assert torch.allclose(values.mean(0), torch.zeros(values.shape[1]), atol=1e-6)
        assert torch.allclose(values.std(0, correction=0), torch.ones(values.shape[1]), atol=1e-6)


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_original_units_come_back(part):
    given = tables()
    data = Given(given)
    x, y = data.tensors(part)
    original = given.parts()[part]
    # float32 after standardisation: the error is relative to the spread of a column, not to its offset
    assert np.abs(data.spec.inputs.restore(x).numpy() - original.x).max(0) == pytest.approx(0, abs=1.0)
    assert (np.abs(data.spec.inputs.restore(x).numpy() - original.x) / given.train.x.std(0)).max() < 1e-6
    assert (np.abs(data.spec.targets.restore(y).numpy() - original.y) / given.train.y.std(0)).max() < 1e-6
    assert data.tables is given


@pytest.mark.parametrize("value", [0.998, 0.1, 1e9 + 0.3, 0.0])
def test_a_constant_column_becomes_exactly_zero(value):
    # A mean of equal values may differ from them by rounding, and dividing by the std of that error gives ones.
    x = np.full((11, 1), value)
    data = Given(Tables(Table(x, x), Table(x[:1] + 2, x[:1]), None, ("a",), ("y",)))
    assert torch.equal(data.tensors("train")[0], torch.zeros(11, 1))
    assert data.tensors("val")[0].item() == pytest.approx(2, abs=1e-6)
    assert data.spec.inputs.mean.item() == value
    assert data.spec.inputs.std.item() == 1


def test_rows_are_loaded_once_and_only_when_needed():
    data = Given(tables())
    assert data.num_loads == 0
    data.setup("fit")
    data.setup("test")
    assert data.spec.num_train == 20
    assert data.num_loads == 1


def test_the_example_input_is_the_first_training_row():
    data = Given(tables())
    assert data.example_input.shape == (1, 3)
    assert torch.equal(data.example_input[0], data.tensors("train")[0][0])


@pytest.mark.parametrize(
    ("num_rows", "batch_size", "min_steps", "steps"),
    [(20, 8, 1, 3), (16, 8, 1, 2), (1, 8, 1, 1), (5, 8, 10, 10), (20, 1, 3, 20)],
)
def test_training_batches_are_full(num_rows, batch_size, min_steps, steps):
    data = Given(tables(train=num_rows), batch_size=batch_size, min_steps_per_epoch=min_steps)
    loader = data.train_dataloader()
    batches = list(loader)
    assert len(loader) == len(batches) == steps == data.steps_per_epoch
    assert {(tuple(x.shape), tuple(y.shape)) for x, y in batches} == {((batch_size, 3), (batch_size, 2))}
    assert all(x.dtype == y.dtype == torch.float32 for x, y in batches)


def test_an_epoch_has_every_row_with_its_own_target():
    data = Given(tables(train=20), batch_size=8)
    x, y = data.tensors("train")
    pairs = {(tuple(a), tuple(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)}
    seen = {
        (tuple(a), tuple(b))
        for batch in data.train_dataloader()
        for a, b in zip(batch[0].tolist(), batch[1].tolist(), strict=True)
    }
    assert seen == pairs


@pytest.mark.parametrize("num_workers", [0, 1])
def test_evaluation_batches_are_in_order_and_complete(num_workers):
    data = Given(tables(), eval_batch_size=3, num_workers=num_workers)
    loader = data.val_dataloader()
    assert not isinstance(loader, list)
    batches = list(loader)
    assert [len(x) for x, _ in batches] == [3, 3, 1]
    assert torch.equal(torch.cat([x for x, _ in batches]), data.tensors("val")[0])
    assert torch.equal(torch.cat([y for _, y in batches]), data.tensors("val")[1])


def test_evaluation_leaves_the_global_generator_alone():
    data = Given(tables())
    before = torch.get_rng_state()
    for loader in (data.val_dataloader(), data.test_dataloader()):
        assert len(list(loader)) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_absent_parts():
    data = Given(tables(val=0, test=0))
    assert data.val_dataloader() == []
    assert data.test_dataloader() == []
    with pytest.raises(ValueError, match="no 'val' part, only train"):
        data.tensors("val")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("batch_size", True),
        ("eval_batch_size", -1),
        ("num_workers", -1),
        ("min_steps_per_epoch", 0),
        ("seed", -1),
        ("seed", "abc"),
    ],
)
def test_wrong_settings_are_named(key, value):
    with pytest.raises(UserError, match=rf"data\.{key}={value!r} must be a whole number of at least"):
        Given(tables(), **{key: value})


@pytest.mark.parametrize(
    ("part", "column", "value", "message"),
    [
        ("train", "x", np.nan, "'b'"),
        ("train", "y", np.inf, "'y'"),
        ("train", "x", 1e300, "'b' are not finite, or too large"),
        ("val", "x", np.nan, "'b' of the val part"),
        ("test", "x", 1e300, "'b' of the test part .* too far"),
    ],
)
def test_values_that_cannot_be_standardised_are_named(part, column, value, message):
    given = tables()
    getattr(given.parts()[part], column)[2, 1 if column == "x" else 0] = value
    with pytest.raises(UserError, match=message):
        Given(given).setup()


def test_tables_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"x \(3, 2\) and y \(4, 1\)"):
        Table(np.zeros((3, 2)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="none of them 0"):
        Table(np.zeros((0, 2)), np.zeros((0, 1)))
    with pytest.raises(ValueError, match="2 columns, but 1 names"):
        Given(Tables(Table(np.zeros((3, 2)), np.zeros((3, 1))), None, None, ("a",), ("y",))).setup()


class Line(pl.LightningModule):
    """Least squares, which keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.seen: dict[str, list[Tensor]] = {"train": [], "val": [], "test": []}

    def _step(self, part: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        self.seen[part].append(x)
        return (self.layer(x) - y).square().mean()

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
    data, model = Given(tables(), batch_size=8, eval_batch_size=4), Line()
    runner = trainer(max_epochs=2)
    runner.fit(model, datamodule=data)
    runner.test(model, datamodule=data)
    assert [len(x) for x in model.seen["train"]] == 6 * [8]
    assert torch.equal(torch.cat(model.seen["val"]), data.tensors("val")[0].repeat(2, 1))
    assert torch.equal(torch.cat(model.seen["test"]), data.tensors("test")[0])
    assert runner.global_step == 6
    assert data.num_loads == 1


def test_fit_without_validation_rows_through_lightning():
    data, model = Given(tables(train=3, val=0, test=0), batch_size=8, min_steps_per_epoch=4), Line()
    runner = trainer(max_steps=8)
    runner.fit(model, datamodule=data)
    assert runner.current_epoch == 2
    assert model.seen["val"] == []
    assert runner.limit_val_batches == 1.0  # as it was before


def test_training_order_is_the_same_with_and_without_validation():
    orders = []
    for val in (7, 0):
        torch.manual_seed(5)
        data, model = Given(tables(val=val), batch_size=8), Line()
        trainer(max_epochs=3).fit(model, datamodule=data)
        orders.append(torch.cat(model.seen["train"]))
    assert torch.equal(*orders)
