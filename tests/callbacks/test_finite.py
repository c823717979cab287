"""A loss that is no number: who is named, and that nothing of it gets into weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from concrete_dropout.callbacks.finite import FiniteLoss, culprit
from concrete_dropout.data import SyntheticData
from concrete_dropout.errors import UserError

from .conftest import MakeTask, MakeTrainer


class Spoil(pl.Callback):
    """Puts a number that is none into a parameter, after a step."""

    def __init__(self, name: str, step: int) -> None:
        self.name, self.step = name, step

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            with torch.no_grad():
                pl_module.get_parameter(self.name).view(-1)[0] = math.nan


@pytest.mark.parametrize(
    ("kind", "words"), [("p_logit", "p of {} is not finite"), ("weight", "weight of {} is not finite")]
)
def test_the_layer_that_went_first_is_named(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData, kind: str, words: str
) -> None:
    task = make_task()
    name = [name for name, _ in task.named_parameters() if name.endswith(f".{kind}")][-1]
    trainer = make_trainer(tmp_path, max_epochs=3, callbacks=[Spoil(name, 2), FiniteLoss()])
    said = words.format(name.rpartition(".")[0])
    with pytest.raises(UserError, match=rf"the loss is nan at step 3 \(epoch \d, batch \d\): {said}"):
        trainer.fit(task, data)
    others = [value for other, value in task.named_parameters() if other != name]
    assert all(bool(value.isfinite().all()) for value in others)


class Overflow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 0


def test_batches_and_outputs_are_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Overflow(), nn.Linear(2, 1))
    x, y = torch.ones(3, 2), torch.ones(3, 1)
    assert culprit(model, (x, y)) == "the output of 1 is the first that is not finite"
    assert culprit(model, (x * math.inf, y)) == "the inputs of this batch are not finite"
    assert culprit(model, (x, y * math.nan)) == "the targets of this batch are not finite"
    assert culprit(nn.Linear(2, 1), (x, y)) == "all layers are finite, the loss alone is not"


def test_no_checkpoint_of_weights_that_broke_in_the_last_step(
    tmp_path: Path, make_task: MakeTask, make_trainer: MakeTrainer, data: SyntheticData
) -> None:
    task = make_task()
    name = next(name for name, _ in task.named_parameters() if name.endswith(".weight"))
    steps = data.steps_per_epoch
    kept = pl.callbacks.ModelCheckpoint(tmp_path, filename="last", save_on_train_epoch_end=True)
    trainer = make_trainer(
        tmp_path, max_epochs=3, enable_checkpointing=True, callbacks=[Spoil(name, 2 * steps), FiniteLoss(), kept]
    )
    with pytest.raises(UserError, match=f"weights are not finite after step {2 * steps}"):
        trainer.fit(task, data)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert saved["global_step"] == steps
    assert all(bool(value.isfinite().all()) for value in saved["state_dict"].values())
