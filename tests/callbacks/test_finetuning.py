"""Two phases in one fit: when the first ends, what the second starts from, and a kill in either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn

from concrete_dropout import swap_dropout
from concrete_dropout.callbacks import FineTuning, RandomState
from concrete_dropout.data import ScenesData, SyntheticData
from concrete_dropout.errors import UserError
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks import SegmentationTask

SCHEME = {"epochs": 2, "patience": 5, "finetune_epochs": 2, "finetune_patience": 5, "lr": 1e-4}


class Watch(pl.Callback):
    """Notes what every training batch looked like, and the learning rate it had."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, tuple[int, ...], float]] = []
        self.first_weights: dict[int, Tensor] = {}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        self.seen.append((trainer.current_epoch, tuple(batch[0].shape), rate))
        self.first_weights.setdefault(trainer.current_epoch, weights(pl_module))


def weights(task: nn.Module) -> Tensor:
    return torch.cat([q.detach().flatten().clone() for q in task.parameters()])


def make_data() -> ScenesData:
    return ScenesData(num_train=4, num_val=2, num_test=1, height=24, width=32, crop=16, batch_size=2, seed=0)


def make_task(data: ScenesData, optim: OptimSettings | None = None) -> SegmentationTask:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Dropout2d(), nn.Conv2d(4, 11, 1))
    swap_dropout(network, "concrete", init_p=0.1, length_scale=1.0, example_input=data.example_input)
    spec = data.spec
    settings = optim or OptimSettings("rmsprop", lr=1e-2, schedule="exponential", decay=0.5)
    return SegmentationTask(
        network, num_train=spec.num_train, num_classes=spec.num_classes, optim=settings, val_samples=0
    )


def fit(folder: Path, callback: FineTuning, ckpt: Path | None = None, max_epochs: int = 100, **more: Any) -> tuple:
    pl.seed_everything(0, verbose=False)
    data = make_data()
    task = make_task(data)
    watch = Watch()
    last = ModelCheckpoint(folder, filename="last", enable_version_counter=False, save_on_train_epoch_end=True)
    monitor, mode = task.selection
    best = ModelCheckpoint(folder, filename="best", monitor=monitor, mode=mode, enable_version_counter=False)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=max_epochs,
        logger=False,
        callbacks=[callback, watch, RandomState(), best, last],
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **more,
    )
    trainer.fit(task, datamodule=data, ckpt_path=ckpt, weights_only=True)
    return task, watch, trainer, best


def test_crops_first_then_whole_images_at_a_smaller_rate(tmp_path: Path) -> None:
    _, watch, trainer, _ = fit(tmp_path, FineTuning(**SCHEME))
    assert trainer.current_epoch == 4
    shapes = {(epoch, shape) for epoch, shape, _ in watch.seen}
    assert shapes == {
        (0, (2, 3, 16, 16)),
        (1, (2, 3, 16, 16)),
        (2, (1, 3, 24, 32)),
        (3, (1, 3, 24, 32)),
    }
    assert [sum(epoch == k for epoch, *_ in watch.seen) for k in range(4)] == [2, 2, 4, 4]
    rates = {epoch: rate for epoch, _, rate in watch.seen}
    assert rates == pytest.approx({0: 1e-2, 1: 5e-3, 2: 1e-4, 3: 5e-5})  # the decay begins anew


def test_the_second_phase_starts_from_the_best_weights(tmp_path: Path) -> None:
    task, watch, _, _ = fit(tmp_path, FineTuning(**{**SCHEME, "epochs": 4, "finetune_epochs": 1}))
    assert len(watch.first_weights) == 5
    # Weights at the beginning of an epoch are those that were validated after the epoch before it.
    best = torch.load(tmp_path / "best.ckpt", weights_only=True)
    candidates = [watch.first_weights[k] for k in (1, 2, 3)]
    started = watch.first_weights[4]
    if best["epoch"] < 3:
        assert torch.equal(started, candidates[best["epoch"]])
    assert not torch.equal(started, weights(task))


@pytest.mark.parametrize(("patience", "epochs"), [(1, 2), (3, 4)])
def test_patience_ends_each_phase(tmp_path: Path, patience: int, epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without progress from the first validation on: the first epoch and ``patience`` more, and the same again."""
    callback = FineTuning(epochs=100, patience=patience, finetune_epochs=100, finetune_patience=2)
    monkeypatch.setattr(SegmentationTask, "selection", ("val/constant", "max"))
    monkeypatch.setattr(
        SegmentationTask, "on_validation_epoch_end", lambda self: self.log("val/constant", torch.tensor(0.5))
    )
    _, watch, trainer, _ = fit(tmp_path, callback)
    assert sum(shape == (2, 3, 16, 16) for shape in {(e, s): s for e, s, _ in watch.seen}.values()) == epochs
    # The best value of the first phase is the one to beat in the second.
    assert trainer.current_epoch == epochs + 2


def test_the_second_phase_can_be_left_out(tmp_path: Path) -> None:
    _, watch, trainer, _ = fit(tmp_path, FineTuning(**{**SCHEME, "finetune_epochs": 0}))
    assert trainer.current_epoch == 2
    assert {shape for _, shape, _ in watch.seen} == {(2, 3, 16, 16)}


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_run_that_was_stopped_goes_on_in_its_phase(tmp_path: Path, stop_after: int) -> None:
    whole, watch, _, _ = fit(tmp_path / "whole", FineTuning(**SCHEME))
    fit(tmp_path / "cut", FineTuning(**SCHEME), max_epochs=stop_after)
    task, rest, trainer, _ = fit(tmp_path / "cut", FineTuning(**SCHEME), ckpt=tmp_path / "cut" / "last.ckpt")
    assert trainer.current_epoch == 4
    assert rest.seen == [entry for entry in watch.seen if entry[0] >= stop_after]
    assert torch.equal(weights(task), weights(whole))


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"patience": 0}, {"lr": 0.0}, {"batch_size": 0}, {"p_lr": -1.0}])
def test_bad_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"callbacks.finetuning.*{next(iter(wrong))}"):
        FineTuning(**wrong)


def test_data_without_crops_are_refused(tmp_path: Path) -> None:
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.datamodule = SyntheticData(num_data=4)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"data\.crop"):
        FineTuning().setup(trainer, nn.Module(), "fit")  # type: ignore[arg-type]
