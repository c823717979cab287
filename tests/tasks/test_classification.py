"""Classification by real Lightning runs: the objective, the bound, and evaluation with and without masks."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from sklearn.metrics import accuracy_score, log_loss
from torch import Tensor, nn
from torch.utils.data import DataLoader

from concrete_dropout import CategoricalPrediction, kl_divergence, mc_predict, mc_sampling
from concrete_dropout.errors import UserError
from concrete_dropout.models import MLP
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks import ClassificationTask

from .conftest import rows_of
from .labelled import Labelled, classification, classifier, clouds

Trainers = Callable[..., pl.Trainer]
SCORES = "nll log_likelihood accuracy brier ece mce calibration_rmse predictive_entropy".split()
OF_SAMPLES = ["expected_entropy", "mutual_information"]


@pytest.fixture
def data() -> Labelled:
    return clouds()


class Steps(Callback):
    """The terms of every training step, as they come out of the network."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.rows: list[int] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(outputs["loss"].item())
        self.rows.append(len(batch[1]))


# -- the objective -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
@pytest.mark.parametrize("kl_weight", [1.0, 0.3])
def test_the_loss_is_cross_entropy_plus_kl_over_n(data: Labelled, kind: str, kl_weight: float) -> None:
    task = classification(data, kind, kl_weight=kl_weight)
    x, y = rows_of(data.train)
    outputs: list[Tensor] = []
    task.network.register_forward_hook(lambda module, args, out: outputs.append(out.detach().double()))
    loss = task.training_step((x, y), 0)
    expected = F.cross_entropy(outputs[0], y) + kl_weight * kl_divergence(task.network).double() / 90
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_uniform_logits_cost_log_c(data: Labelled) -> None:
    task = classification(data, "none")
    assert task.nll(torch.zeros(5, 3), torch.arange(5) % 3).tolist() == pytest.approx([math.log(3)] * 5)


def test_several_training_samples_average_likelihoods(data: Labelled) -> None:
    task = classification(data, train_samples=4, kl_weight=0.0)
    x, y = (part[:7] for part in rows_of(data.train))
    outputs: list[Tensor] = []
    task.network.register_forward_hook(lambda module, args, out: outputs.append(out.detach().double()))
    loss = task.training_step((x, y), 0)
    p = outputs[0].softmax(1).view(4, 7, 3).mean(0)
    assert loss.item() == pytest.approx(-p.gather(1, y.unsqueeze(1)).log().mean().item(), rel=1e-5)


def test_the_bound_is_a_mean_over_the_epoch_so_far(data: Labelled, trainer: Trainers, tmp_path: Path) -> None:
    """Of -loss, by rows; the last one of an epoch is always there, in metrics and for loggers that want it."""
    logger, steps = CSVLogger(tmp_path), Steps()
    engine = trainer(max_epochs=2, logger=logger, log_every_n_steps=4, callbacks=[steps])
    engine.fit(classification(data, kl_weight=0.5), datamodule=data)
    assert steps.rows == [16, 16, 16, 16, 16, 10] * 2

    def mean(start: int, stop: int) -> float:
        losses, rows = torch.tensor(steps.losses[start:stop]), torch.tensor(steps.rows[start:stop])
        return -(losses * rows).sum().item() / rows.sum().item()

    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        logged = [float(row["train/elbo"]) for row in csv.DictReader(file) if row["train/elbo"]]
    assert logged == pytest.approx([mean(0, 4), mean(6, 8), mean(6, 12)], rel=1e-5)  # of steps 4, 8 and 12
    assert engine.callback_metrics["train/elbo"].item() == pytest.approx(mean(6, 12), rel=1e-5)


def test_training_learns(data: Labelled, trainer: Trainers) -> None:
    task, steps = classification(data, optim=OptimSettings(lr=2e-2)), Steps()
    engine = trainer(max_epochs=15, callbacks=[steps], check_val_every_n_epoch=15)
    engine.fit(task, datamodule=data)
    assert sum(steps.losses[-12:]) < 0.6 * sum(steps.losses[:12])
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in task.parameters())
    engine.test(task, datamodule=data, verbose=False)
    assert task.results["test"].scalars["accuracy"] > 0.8
    assert task.results["test"].scalars["accuracy_no_mc"] > 0.8


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_stage_results_against_direct_computation(data: Labelled, trainer: Trainers) -> None:
    task = classification(data)
    trainer().test(task, DataLoader(data.test, 48), verbose=False)
    x, y = rows_of(data.test)
    with torch.no_grad(), mc_sampling(task.network, seed=0):
        p = torch.stack([task.network(x).double().softmax(1) for _ in range(6)]).mean(0)
    with torch.no_grad():
        scaled = task.network.eval()(x).double().softmax(1)
    scalars = task.results["test"].scalars
    for suffix, probabilities in (("", p), ("_no_mc", scaled)):
        assert scalars[f"nll{suffix}"] == pytest.approx(log_loss(y, probabilities, labels=range(3)), rel=1e-5)
        assert scalars[f"accuracy{suffix}"] == accuracy_score(y, probabilities.argmax(1))
    assert task.results["test"].num_points == 48


def test_results_are_what_is_logged(data: Labelled, trainer: Trainers) -> None:
    task, engine = classification(data), trainer()
    engine.validate(task, datamodule=data, verbose=False)
    assert set(task.results["val"].scalars) == {*SCORES, *OF_SAMPLES}
    for name, value in task.results["val"].scalars.items():
        assert engine.callback_metrics[f"val/{name}"].item() == pytest.approx(value, rel=1e-6)
    engine.test(task, datamodule=data, verbose=False)
    assert set(task.results["test"].scalars) == {*SCORES, *OF_SAMPLES, *(f"{name}_no_mc" for name in SCORES)}


@pytest.mark.parametrize(
    ("kind", "samples", "compared"),
    [("concrete", 6, True), ("fixed", 6, True), ("concrete", 0, False), ("none", 6, False)],
)
def test_weight_scaling_is_compared_with_where_it_is_something_else(
    data: Labelled, trainer: Trainers, kind: str, samples: int, compared: bool
) -> None:
    outputs: dict[str, Any] = {}

    class Keep(Callback):
        def on_validation_batch_end(self, trainer: Any, module: Any, out: Any, *args: Any) -> None:
            outputs["val"] = out

        def on_test_batch_end(self, trainer: Any, module: Any, out: Any, *args: Any) -> None:
            outputs["test"] = out

    task, engine = classification(data, kind, test_samples=samples), trainer(callbacks=[Keep()])
    engine.validate(task, datamodule=data, verbose=False)
    engine.test(task, datamodule=data, verbose=False)
    assert set(outputs["val"]) == set(outputs["test"]) == {"prediction", "deterministic", "targets"}
    assert outputs["val"]["deterministic"] is None
    assert isinstance(outputs["test"]["prediction"], CategoricalPrediction)
    assert (outputs["test"]["deterministic"] is not None) == compared
    assert ("nll_no_mc" in task.results["test"].scalars) == compared
    assert ("confidence_no_mc" in task.results["test"].curves) == compared


def test_evaluation_can_be_repeated_and_leaves_the_random_state_alone(data: Labelled, trainer: Trainers) -> None:
    task, results = classification(data), []
    for _ in range(2):
        state = torch.get_rng_state()
        task.evaluate(rows_of(data.val), 5, seed=0)
        assert torch.equal(torch.get_rng_state(), state)
        torch.rand(3)
        trainer().test(task, datamodule=data, verbose=False)
        results.append(task.results["test"].scalars)
    assert results[0] == pytest.approx(results[1], rel=1e-6)


def test_predict_is_mc_predict(data: Labelled) -> None:
    task, x = classification(data, mask="bernoulli"), torch.randn(5, 2)
    expected = mc_predict(task.network, x, "categorical", 7, seed=3, mask="bernoulli", frozen_masks=True)
    prediction = task.predict(x, 7, seed=3, frozen_masks=True)
    torch.testing.assert_close(prediction.probabilities, expected.mean)
    assert prediction.log_likelihood is None


def test_checkpoints_are_tensors_and_continue(data: Labelled, trainer: Trainers, tmp_path: Path) -> None:
    saver = ModelCheckpoint(tmp_path, save_last=True)
    task = classification(data)
    trainer(max_epochs=1, callbacks=[saver], enable_checkpointing=True).fit(task, datamodule=data)
    checkpoint = torch.load(saver.last_model_path, weights_only=True)
    assert {name.partition(".")[0] for name in checkpoint["state_dict"]} == {"network"}
    engine = trainer(max_epochs=3, callbacks=[saver], enable_checkpointing=True)
    engine.fit(classification(data), datamodule=data, ckpt_path=saver.last_model_path, weights_only=True)
    assert engine.global_step == 18


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"batch_norm": "both"}, {"val_samples": -1}, {"kl_weight": math.nan}])
def test_bad_values_are_refused_by_their_key(data: Labelled, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"task\.{next(iter(wrong))}="):
        classification(data, **wrong)


def test_names_and_classes_must_fit(data: Labelled) -> None:
    assert ClassificationTask(classifier(), num_train=1, num_classes=3).class_names == ("0", "1", "2")
    for names in (("a", "b"), ("a", "a", "b")):
        with pytest.raises(ValueError, match="3 different names"):
            classification(data, class_names=names)
    with pytest.raises(ValueError, match="at least 2"):
        classification(data, num_classes=1, class_names=())


def test_outputs_that_are_no_logits_are_the_users_to_mend(data: Labelled) -> None:
    x, y = rows_of(data.train)
    with pytest.raises(UserError, match=r"\(90, 3\) where logits \(90, 4\) are needed"):
        classification(data, num_classes=4, class_names=()).training_step((x, y), 0)

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = classifier()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"out": self.body(x)}

    with pytest.raises(UserError, match="returns dict where logits"):
        classification(data, network=Pair()).training_step((x, y), 0)
    with pytest.raises(ValueError, match="went through swap_dropout"):
        classification(data, network=MLP(2, 3))
