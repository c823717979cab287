"""The objective and the training loop, by real Lightning runs."""

from __future__ import annotations

import csv
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
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, IterableDataset

from concrete_dropout import dropout_probabilities, kl_divergence, mc_sampling
from concrete_dropout.dropout.layers import ConcreteDropout
from concrete_dropout.models import MLP
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks import mixture_nll

from .conftest import Data, make_task, rows_of, swapped_network

Trainers = Callable[..., pl.Trainer]
SCALARS = "nll rmse crps log_likelihood sharpness calibration_rmse epistemic_std aleatoric_std predictive_std".split()


class Recorder(Callback):
    """What the logged metrics were after each step, and the loss that was returned."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self.losses: list[float] = []
        self.results: dict[str, bool] = {}

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, *args: Any) -> None:
        self.losses.append(outputs["loss"].item())
        self.steps.append({name: value.item() for name, value in trainer.callback_metrics.items()})

    def on_validation_end(self, trainer: pl.Trainer, module: Any) -> None:
        self.results["val"] = "val" in module.results

    def on_test_end(self, trainer: pl.Trainer, module: Any) -> None:
        self.results["test"] = "test" in module.results


# -- the objective -------------------------------------------------------------------------------------------------


def closed_form(network: nn.Module, p: float, length_scale: float, num_train: int) -> float:
    """KL / N, by hand."""
    total = 0.0
    for linear in (m for m in network.modules() if isinstance(m, nn.Linear)):
        entropy = -p * math.log(p) - (1 - p) * math.log1p(-p) if p > 0 else 0.0
        total += length_scale**2 / 2 * linear.weight.double().square().sum().item() / (1 - p)
        total -= linear.in_features * entropy
    return total / num_train


@pytest.mark.parametrize(("kind", "p"), [("none", 0.0), ("fixed", 0.2), ("concrete", 0.2)])
@pytest.mark.parametrize("kl_weight", [1.0, 0.3])
def test_the_loss_is_nll_plus_kl_over_n(data: Data, trainer: Trainers, kind: str, p: float, kl_weight: float) -> None:
    task, recorder = make_task(data, kind, kl_weight=kl_weight), Recorder()
    expected_kl = closed_form(task.network, p, 1e-2, 64)
    seen: list[Tensor] = []
    task.network.register_forward_hook(lambda module, args, out: seen.append(torch.stack(out).detach()))
    batch = next(iter(DataLoader(data.train, 16)))
    trainer(max_steps=1, limit_val_batches=0, callbacks=[recorder]).fit(
        task, DataLoader(data.train, 16), data.val_dataloader()
    )
    mean, log_var = seen[0].double()
    nll = -Normal(mean, (0.5 * log_var).exp()).log_prob(batch[1].double()).sum(1).mean().item()
    logged, units = recorder.steps[0], data.targets.std.log().sum().item()
    assert recorder.losses[0] == pytest.approx(nll + kl_weight * expected_kl, rel=1e-5)
    # what is shown is in the units of the targets
    assert logged["train/nll"] == pytest.approx(nll + units, rel=1e-6)
    assert logged["train/kl"] == pytest.approx(expected_kl, rel=1e-5)
    assert logged["train/loss"] == pytest.approx(nll + units + kl_weight * expected_kl, rel=1e-5)


def test_all_kinds_log_the_same_keys(data: Data, trainer: Trainers) -> None:
    keys = []
    for kind in ("none", "fixed", "concrete"):
        engine = trainer()
        engine.fit(make_task(data, kind), datamodule=data)
        keys.append(set(engine.callback_metrics))
    assert keys[0] == keys[1] == keys[2]
    assert keys[0] == {"train/nll", "train/kl", "train/loss", *(f"val/{name}" for name in SCALARS)}


def test_loggers_get_the_numbers_of_their_own_steps(data: Data, trainer: Trainers, tmp_path: Path) -> None:
    """Every third step, its loss and not an older one; progress bars see the latest that was taken."""
    logger, recorder = CSVLogger(tmp_path), Recorder()
    engine = trainer(max_epochs=3, logger=logger, log_every_n_steps=3, callbacks=[recorder], limit_val_batches=0)
    engine.fit(make_task(data), datamodule=data)
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [2, 5, 8, 11]
    for row in rows:
        loss = recorder.losses[int(row["step"])] + data.targets.std.log().sum().item()
        assert float(row["train/loss"]) == pytest.approx(loss, rel=1e-6)
        assert float(row["train/loss"]) == pytest.approx(float(row["train/nll"]) + float(row["train/kl"]), rel=1e-5)


def test_mixture_nll_is_a_logsumexp() -> None:
    nll = torch.randn(4, 7, dtype=torch.float64) * 5
    torch.testing.assert_close(mixture_nll(nll), -torch.log(torch.exp(-nll).mean(0)))
    assert torch.equal(mixture_nll(nll[:1]), nll[0])


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_several_training_samples(data: Data, noise: Any) -> None:
    """The log of the mean likelihood over S masks, each row by itself."""
    task = make_task(data, noise=noise, train_samples=3, kl_weight=0.0)
    x, y = (part[:6] for part in rows_of(data.train))
    outputs: list[Any] = []
    handle = task.network.register_forward_hook(lambda module, args, out: outputs.append((args[0], out)))
    loss = task.training_step((x, y), 0)
    handle.remove()
    seen, out = outputs[0]
    assert torch.equal(seen, torch.cat([x, x, x]))
    start = torch.tensor((31.1 / 32.01) ** -0.5)  # tau before the first step: N = 64, msr = 1
    mean, std = (out[0], (0.5 * out[1]).exp()) if noise == "heteroscedastic" else (out, start)
    density = Normal(mean.double(), std.double()).log_prob(torch.cat([y, y, y]).double()).sum(1).reshape(3, 6)
    expected = -(torch.logsumexp(density, 0) - math.log(3)).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert not torch.equal(density[0], density[1])


def test_several_samples_without_dropout_are_one_pass(data: Data) -> None:
    task = make_task(data, "none", train_samples=3)
    rows: list[int] = []
    task.network.register_forward_hook(lambda module, args, out: rows.append(args[0].shape[0]))
    task.training_step(rows_of(data.train), 0)
    assert rows == [64]


def test_more_samples_give_a_tighter_bound(data: Data) -> None:
    x, y = rows_of(data.train)
    task = make_task(data)
    with torch.no_grad(), mc_sampling(task.network, seed=0):
        nll = torch.stack([task.nll(task.network(x), y) for _ in range(60)])  # (S, rows)
    bounds = [mixture_nll(nll.unflatten(0, (-1, samples)).transpose(0, 1)).mean() for samples in (1, 3, 30)]
    assert bounds[0] > bounds[1] > bounds[2]


# -- the loop ------------------------------------------------------------------------------------------------------


def test_training_learns_p_and_the_function(data: Data, trainer: Trainers) -> None:
    task, recorder = make_task(data, optim=OptimSettings(lr=1e-2, p_lr=0.05)), Recorder()
    for layer in task.network.modules():
        if isinstance(layer, ConcreteDropout):
            layer.p = 0.5  # far from where they go: both come down
    before = dropout_probabilities(task.network)
    engine = trainer(max_epochs=40, callbacks=[recorder], check_val_every_n_epoch=20)
    engine.fit(task, datamodule=data)
    assert sum(recorder.losses[-20:]) < sum(recorder.losses[:20]) - 5
    after = dropout_probabilities(task.network)
    assert all(after[name] < before[name] - 0.1 for name in before)
    assert recorder.results == {"val": True}
    engine.test(task, datamodule=data, verbose=False)
    assert recorder.results == {"val": True, "test": True}


def test_results_are_what_is_logged(data: Data, trainer: Trainers) -> None:
    task, engine = make_task(data), trainer()
    engine.validate(task, datamodule=data, verbose=False)
    result = task.results["val"]
    assert set(result.scalars) == set(SCALARS)
    assert result.num_points == 24
    for name, value in result.scalars.items():
        assert engine.callback_metrics[f"val/{name}"].item() == pytest.approx(value, rel=1e-6)


def test_evaluation_can_be_repeated_and_leaves_the_random_state_alone(data: Data, trainer: Trainers) -> None:
    task = make_task(data)
    results = []
    for _ in range(2):
        state = torch.get_rng_state()
        task.evaluate(rows_of(data.val), 5, seed=0)
        assert torch.equal(torch.get_rng_state(), state)
        torch.rand(3)
        trainer().test(task, datamodule=data, verbose=False)
        results.append(task.results["test"])
    assert results[0].scalars == pytest.approx(results[1].scalars, rel=1e-6)  # up to rounding
    assert results[0].curves == results[1].curves
    other = make_task(data, network=task.network, seed=1)
    trainer().test(other, datamodule=data, verbose=False)
    assert other.results["test"].scalars["nll"] != pytest.approx(results[0].scalars["nll"], rel=1e-4)


def test_batches_have_masks_of_their_own(data: Data, trainer: Trainers) -> None:
    """The same row in two batches: another batch, another mask."""
    task, means = make_task(data), []

    class Keep(Callback):
        def on_test_batch_end(self, trainer: Any, module: Any, outputs: Any, *args: Any) -> None:
            means.append(outputs["prediction"].mean)

    x, y = (part[:1] for part in rows_of(data.test))
    loader = DataLoader(torch.utils.data.TensorDataset(x.expand(4, -1), y.expand(4, -1)), 1)
    trainer(callbacks=[Keep()]).test(task, loader, verbose=False)
    assert len({value.item() for value in means}) == 4


def test_the_learning_rate_falls_to_zero_over_all_steps(data: Data, trainer: Trainers) -> None:
    rates: list[float] = []

    class Rates(Callback):
        def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    task = make_task(data, optim=OptimSettings(lr=0.1, schedule="linear", hold=0.5))
    trainer(max_epochs=2, callbacks=[Rates()]).fit(task, datamodule=data)
    assert rates == pytest.approx([0.1] * 5 + [0.075, 0.05, 0.025])


def test_training_without_an_end_keeps_its_learning_rate(
    data: Data, trainer: Trainers, caplog: pytest.LogCaptureFixture
) -> None:
    class Endless(IterableDataset[tuple[Tensor, Tensor]]):
        def __iter__(self) -> Any:
            return iter(data.train)

    task, engine = make_task(data), trainer(max_epochs=1, limit_val_batches=0)
    with caplog.at_level(logging.WARNING):
        engine.fit(task, DataLoader(Endless(), 16), data.val_dataloader())
    assert engine.optimizers[0].param_groups[0]["lr"] == 1e-2
    assert "optim.schedule=linear" in caplog.text


# -- checkpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_checkpoints_are_tensors_and_plain_values(data: Data, trainer: Trainers, tmp_path: Path, noise: Any) -> None:
    saver = ModelCheckpoint(tmp_path, save_last=True)
    task = make_task(data, noise=noise, final_m_step=True)
    engine = trainer(callbacks=[saver], enable_checkpointing=True)
    engine.fit(task, datamodule=data)
    checkpoint = torch.load(saver.last_model_path, weights_only=True)
    assert all(isinstance(value, Tensor) for value in checkpoint["state_dict"].values())
    assert "hyper_parameters" not in checkpoint
    wanted = {"inputs.mean", "inputs.std", "targets.mean", "targets.std"}
    assert wanted <= set(checkpoint["state_dict"])
    assert ("noise.mean_sum" in checkpoint["state_dict"]) == (noise == "homoscedastic")
    # into a task that knows the shapes alone
    blank = Data()
    blank.inputs.mean.zero_()
    blank.targets.std.fill_(1.0)
    other = make_task(blank, noise=noise)
    other.load_state_dict(checkpoint["state_dict"])
    x = torch.randn(5, 2)
    a, b = task.predict(x, 7), other.predict(x, 7)
    assert torch.equal(a.mean, b.mean)
    assert torch.equal(a.epistemic, b.epistemic)


def test_training_resumes_from_a_checkpoint(data: Data, trainer: Trainers, tmp_path: Path) -> None:
    saver = ModelCheckpoint(tmp_path, save_last=True)
    trainer(max_epochs=1, callbacks=[saver], enable_checkpointing=True).fit(make_task(data), datamodule=data)
    task, engine = make_task(data), trainer(max_epochs=3, callbacks=[saver], enable_checkpointing=True)
    engine.fit(task, datamodule=data, ckpt_path=saver.last_model_path, weights_only=True)
    assert engine.global_step == 12


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_train": 0},
        {"kl_weight": -1.0},
        {"kl_weight": math.nan},
        {"train_samples": 0},
        {"val_samples": -1},
        {"test_samples": -1},
        {"mask": "soft"},
        {"noise": "none"},
    ],
)
def test_bad_numbers_are_refused_by_their_key(data: Data, wrong: dict[str, Any]) -> None:
    options = {"network": swapped_network(), **wrong}
    with pytest.raises(ValueError, match=rf"\.{next(iter(wrong))}="):
        make_task(data, **options)


def test_a_network_that_was_not_swapped_is_refused_at_once(data: Data) -> None:
    with pytest.raises(ValueError, match="went through swap_dropout"):
        make_task(data, network=MLP(2, 2))
    with pytest.raises(ValueError, match="went through swap_dropout"):
        make_task(data, network=nn.Sequential(ConcreteDropout(), nn.Linear(2, 2)))


def test_the_kl_is_that_of_the_network(data: Data) -> None:
    task = make_task(data)
    assert kl_divergence(task) == kl_divergence(task.network)


# -- several processes ---------------------------------------------------------------------------------------------

TWO_PROCESSES = """
import json, sys, warnings
import torch
import pytorch_lightning as pl
from torch.utils.data import DataLoader
sys.path.insert(0, sys.argv[1])
from tests.tasks.conftest import Data, make_task
devices, folder = int(sys.argv[2]), sys.argv[3]
pl.seed_everything(0)
data = Data(rows=32)
data.train_dataloader = lambda: DataLoader(data.train, 32 // devices)
data.test_dataloader = lambda: DataLoader(data.test, 30)
task = make_task(data, "none", "homoscedastic", final_m_step=True)
trainer = pl.Trainer(
    max_epochs=5, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto", logger=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
)
trainer.fit(task, datamodule=data)
trainer.test(task, datamodule=data, verbose=False)
state = {"tau": task.noise.tau.item(), "running": task.noise.running_tau.item(), **task.results["test"].scalars}
with open(f"{folder}/{devices}-{task.global_rank}.json", "w") as file:
    json.dump({**state, "num_points": task.results["test"].num_points}, file)
"""


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    """Gradients, squared residuals and metrics are means over processes; every process has the same numbers."""
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    root = Path(__file__).parents[2]
    for devices in (1, 2):
        command = [sys.executable, "-W", "ignore", str(script), str(root), str(devices), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    one, first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    assert first == pytest.approx(second, rel=1e-6)
    assert first == pytest.approx(one, rel=1e-4)
    assert one["num_points"] == 30
