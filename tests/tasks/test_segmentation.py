"""Segmentation by real Lightning runs: labelled pixels alone count, whatever the loss and the statistics."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from pytorch_lightning.callbacks import Callback
from sklearn.metrics import jaccard_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from concrete_dropout import kl_divergence, mc_sampling, swap_dropout
from concrete_dropout.errors import UserError
from concrete_dropout.models.batch_norm import batch_statistics
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.segmentation_losses import region_loss

from .conftest import rows_of
from .labelled import CLASSES, VOID, Labelled, pictures, segmentation, segmenter

Trainers = Callable[..., pl.Trainer]
LOSSES = ["dice", "focal", "jaccard", "lovasz", "tversky"]


@pytest.fixture
def data() -> Labelled:
    return pictures()


class Losses(Callback):
    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *args: Any) -> None:
        self.values.append(outputs["loss"].item())


def outputs_of(task: Any) -> list[Tensor]:
    """What the network returns from now on, in float64."""
    outputs: list[Tensor] = []
    task.network.register_forward_hook(lambda module, args, out: outputs.append(out.detach().double()))
    return outputs


# -- the objective -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_the_nll_is_the_mean_over_labelled_pixels(data: Labelled, kind: str) -> None:
    task, (x, y) = segmentation(data, kind), rows_of(data.train)
    outputs = outputs_of(task)
    loss = task.training_step((x, y), 0)
    labelled = y != VOID
    nll = F.cross_entropy(outputs[0].movedim(1, -1)[labelled], y[labelled])
    assert 0.05 < (~labelled).double().mean().item() < 0.15
    assert loss.item() == pytest.approx((nll + kl_divergence(task.network) / data.num_train).item(), rel=1e-5)


def test_void_pixels_have_no_gradient(data: Labelled) -> None:
    task = segmentation(data)
    y = torch.tensor([[[0, VOID], [-1, 2]]])
    logits = torch.randn(1, 3, 2, 2, requires_grad=True)
    task.average(task.nll(logits, y), y).backward()
    assert logits.grad is not None
    assert (logits.grad.abs().sum(1) > 0).tolist() == [[[True, False], [False, True]]]


def test_a_batch_of_void_costs_the_kl_alone(data: Labelled) -> None:
    task, (x, y) = segmentation(data), rows_of(data.train)
    loss = task.training_step((x, torch.full_like(y, VOID)), 0)
    assert loss.item() == pytest.approx(kl_divergence(task.network).item() / data.num_train, rel=1e-5)
    loss.backward()
    gradients = [parameter.grad for parameter in task.parameters() if parameter.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_several_training_samples_average_likelihoods_of_pixels(data: Labelled) -> None:
    task, (x, y) = segmentation(data, train_samples=3, kl_weight=0.0), rows_of(data.train)
    outputs = outputs_of(task)
    loss = task.training_step((x, y), 0)
    p = outputs[0].softmax(1).view(3, *x.shape[:1], 3, *x.shape[2:]).mean(0)
    labelled = y != VOID
    likelihood = p.movedim(1, -1)[labelled].gather(1, y[labelled].unsqueeze(1))
    assert loss.item() == pytest.approx(-likelihood.log().mean().item(), rel=1e-5)


@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_training_learns(data: Labelled, trainer: Trainers, kind: str) -> None:
    task, losses = segmentation(data, kind, optim=OptimSettings(lr=3e-2)), Losses()
    engine = trainer(max_epochs=12, callbacks=[losses], check_val_every_n_epoch=12)
    engine.fit(task, datamodule=data)
    assert sum(losses.values[-6:]) < 0.6 * sum(losses.values[:6])
    assert {"train/elbo", "val/miou"} <= set(engine.callback_metrics)
    engine.test(task, datamodule=data, verbose=False)
    assert task.results["test"].scalars["miou"] > 0.6


# -- other losses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_other_losses_see_labelled_pixels_alone(name: str) -> None:
    """Void pixels may hold anything; the loss is that of an image which has the others alone."""
    loss = region_loss(name)
    logits, y = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    labelled = torch.rand(2, 4, 5) < 0.6
    logits.requires_grad_()
    value = loss(logits, y.masked_fill(~labelled, VOID), labelled)
    other = torch.where(labelled.unsqueeze(1), logits.detach(), torch.randn(2, 3, 4, 5) * 100)
    assert loss(other, y, labelled).item() == pytest.approx(value.item(), rel=1e-5)
    value.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad.abs().sum(1)[~labelled] == 0).all()
    nothing = loss(logits, y, torch.zeros_like(labelled))
    assert nothing.item() == 0
    nothing.backward()


def test_dice_is_the_overlap_of_labelled_pixels() -> None:
    logits, y = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    labelled = torch.rand(2, 4, 5) < 0.7
    p, truth = logits.softmax(1).movedim(1, -1)[labelled], F.one_hot(y, 3)[labelled]
    dice = 2 * (p * truth).sum(0) / (p.sum(0) + truth.sum(0))
    assert region_loss("dice")(logits, y, labelled).item() == pytest.approx((1 - dice).mean().item(), rel=1e-5)


@pytest.mark.parametrize("options", [{"loss": "dice"}, {"extra_loss": "lovasz", "extra_loss_weight": 0.3}])
def test_losses_replace_or_join_the_nll(data: Labelled, options: dict[str, Any]) -> None:
    task, (x, y) = segmentation(data, **options), rows_of(data.train)
    outputs = outputs_of(task)
    loss = task.training_step((x, y), 0).item()
    labelled = y != VOID
    nll = F.cross_entropy(outputs[0].movedim(1, -1)[labelled], y[labelled]).item()
    other = region_loss(options.get("loss") or options["extra_loss"])(outputs[0].float(), y, labelled).item()
    expected = other if "loss" in options else nll + 0.3 * other
    assert loss == pytest.approx(expected + kl_divergence(task.network).item() / data.num_train, rel=1e-5)


def test_what_is_no_bound_is_said(data: Labelled, trainer: Trainers, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trainer(max_steps=1, limit_val_batches=0).fit(segmentation(data), datamodule=data)
    assert "no bound" not in caplog.text
    losses = Losses()
    engine = trainer(max_epochs=8, limit_val_batches=0, callbacks=[losses])
    task = segmentation(data, loss="focal", extra_loss="dice", optim=OptimSettings(lr=3e-2))
    with caplog.at_level(logging.WARNING):
        engine.fit(task, datamodule=data)
    assert "focal + 1 * dice + KL / N" in caplog.text
    assert "no bound" in caplog.text
    assert sum(losses.values[-3:]) < sum(losses.values[:3])
    # the likelihood is reported all the same
    assert engine.callback_metrics["train/elbo"].item() < -0.05


@pytest.mark.parametrize(
    "wrong", [{"loss": "hinge"}, {"extra_loss": "cross_entropy"}, {"extra_loss_weight": -1.0}, {"batch_norm": "none"}]
)
def test_bad_values_are_refused_by_their_key(data: Labelled, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"task\.{next(iter(wrong))}="):
        segmentation(data, **wrong)


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_stage_results_against_direct_computation(data: Labelled, trainer: Trainers) -> None:
    task = segmentation(data)
    trainer().test(task, DataLoader(data.test, 6), verbose=False)
    x, y = rows_of(data.test)
    with torch.no_grad(), mc_sampling(task.network, seed=0):
        p = torch.stack([task.network(x).double().softmax(1) for _ in range(6)]).mean(0)
    with torch.no_grad():
        scaled = task.network.eval()(x).double().softmax(1)
    labelled = y != VOID
    result = task.results["test"]
    assert result.num_points == labelled.sum().item()
    for suffix, probabilities in (("", p), ("_no_mc", scaled)):
        of_labelled = probabilities.movedim(1, -1)[labelled]
        nll = -of_labelled.gather(1, y[labelled].unsqueeze(1)).log().mean().item()
        iou = jaccard_score(y[labelled], of_labelled.argmax(1), average=None)
        assert result.scalars[f"nll{suffix}"] == pytest.approx(nll, rel=1e-5)
        assert result.scalars[f"miou{suffix}"] == pytest.approx(iou.mean())
        assert [result.scalars[f"iou/{name}{suffix}"] for name in CLASSES] == pytest.approx(iou.tolist())
    assert task.selection == ("val/miou", "max")


def test_one_image_at_a_time_is_the_data_set_at_once(data: Labelled, trainer: Trainers) -> None:
    """IoU and calibration are of the whole set, not means over batches."""
    task = segmentation(data, "none")
    results = []
    for batch_size in (1, 4, 6):
        trainer().test(task, DataLoader(data.test, batch_size), verbose=False)
        results.append(task.results["test"])
    for other in results[1:]:
        assert other.scalars == pytest.approx(results[0].scalars, rel=1e-5, abs=1e-8)
        assert other.num_points == results[0].num_points


def test_batch_statistics_are_those_of_the_whole_batch(data: Labelled, trainer: Trainers) -> None:
    """Every sample sees the batch as a whole, the running statistics stay, and no sample sees another."""
    network = segmenter()
    for _ in range(5):  # running statistics that do not fit the data
        network(torch.randn(4, 3, 8, 10) * 3)
    task = segmentation(data, network=network, batch_norm="batch")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    x, y = rows_of(data.test)
    trainer().test(task, DataLoader(data.test, 6), verbose=False)
    prediction = task.evaluate((x, y), 6, seed=0)["prediction"]
    with torch.no_grad(), batch_statistics(network), mc_sampling(network, seed=0):
        p = torch.stack([network(x).double().softmax(1) for _ in range(6)]).mean(0)
    torch.testing.assert_close(prediction.probabilities.double(), p, rtol=1e-4, atol=1e-5)
    expected = -prediction.log_likelihood.nanmean().item()
    assert task.results["test"].scalars["nll"] == pytest.approx(expected, rel=1e-5)
    running = segmentation(data, network=network).evaluate((x, y), 6, seed=0)["prediction"]
    assert not torch.allclose(running.probabilities, prediction.probabilities, atol=1e-2)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_one_value_has_no_statistics(data: Labelled) -> None:
    network = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Dropout2d(0.2), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Upsample((8, 10))
    )
    network = swap_dropout(network, "concrete", example_input=torch.zeros(2, 3, 8, 10))
    task = segmentation(data, network=network, batch_norm="batch")
    assert math.isfinite(task.predict(torch.randn(2, 3, 8, 10), 3).probabilities.sum().item())
    with pytest.raises(UserError, match=r"task\.batch_norm=batch.*task\.batch_norm=running"):
        task.predict(torch.randn(1, 3, 8, 10), 3)
    assert network[3].running_mean is not None


def test_images_of_different_sizes(data: Labelled, trainer: Trainers) -> None:
    task = segmentation(data)
    sizes = [(8, 10), (12, 9), (5, 16)]
    images = [(torch.randn(3, *size), torch.randint(3, size)) for size in sizes]
    trainer().test(task, DataLoader(images, 1), verbose=False)  # type: ignore[arg-type]
    assert task.results["test"].num_points == sum(height * width for height, width in sizes)


def test_logits_of_another_size_are_refused(data: Labelled) -> None:
    task, (x, _) = segmentation(data), rows_of(data.train)
    with pytest.raises(UserError, match=r"logits \(12, 3, 4, 4\) are needed"):
        task.training_step((x, torch.zeros(12, 4, 4).long()), 0)


def test_void_alone_is_no_reason_to_fail(data: Labelled, trainer: Trainers) -> None:
    task, (x, y) = segmentation(data), rows_of(data.val)
    engine = trainer(max_epochs=1)
    void = DataLoader(TensorDataset(x, torch.full_like(y, VOID)), 2)
    engine.fit(task, void, void)
    assert task.results["val"].num_points == 0
    assert engine.callback_metrics["train/nll"].item() == 0


# -- several processes ---------------------------------------------------------------------------------------------

TWO_PROCESSES = """
import json, sys
import torch
import pytorch_lightning as pl
from torch.utils.data import DataLoader
sys.path.insert(0, sys.argv[1])
from tests.tasks.labelled import pictures, segmentation
devices, folder = int(sys.argv[2]), sys.argv[3]
pl.seed_everything(0)
data = pictures()
data.train_dataloader = lambda: DataLoader(data.train, 12 // devices)
data.test_dataloader = lambda: DataLoader(data.test, 1)
task = segmentation(data, "fixed", test_samples=0)
for module in task.network.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.requires_grad_(False).eval()
trainer = pl.Trainer(
    max_epochs=3, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", logger=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
)
trainer.test(task, datamodule=data, verbose=False)
result = task.results["test"]
trainer.fit(task, datamodule=data)
elbo = trainer.callback_metrics["train/elbo"].item()
with open(f"{folder}/{devices}-{task.global_rank}.json", "w") as file:
    json.dump({"scalars": result.scalars, "curves": result.curves, "points": result.num_points, "elbo": elbo}, file)
"""


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    """Counts are summed over processes, so that every one of them has the results of the whole set."""
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    for devices in (1, 2):
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(script),
            str(Path(__file__).parents[2]),
            str(devices),
            str(tmp_path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    one, first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    assert first["elbo"] == pytest.approx(second["elbo"])
    assert first["elbo"] == pytest.approx(one["elbo"], abs=0.1)  # masks and the mean over pixels differ
    for other in (first, second):
        assert other["points"] == one["points"]
        assert other["scalars"] == pytest.approx(one["scalars"], rel=1e-6, abs=1e-8)
        for name, values in one["curves"].items():
            assert other["curves"][name] == pytest.approx(values, rel=1e-6)
