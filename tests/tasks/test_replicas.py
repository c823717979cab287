"""Replicas that train as one against the same tasks trained, evaluated and resumed alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn

from concrete_dropout import dropout_probabilities
from concrete_dropout.callbacks.rng import RandomState
from concrete_dropout.data import SyntheticData
from concrete_dropout.data.replicas import ReplicatedData
from concrete_dropout.errors import UserError
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import NoisePrecision, RegressionTask
from concrete_dropout.tasks.replica_noise import StackedNoise
from concrete_dropout.tasks.replicas import ReplicatedTask, clip_norms

Trainers = Callable[..., pl.Trainer]
NOISES = ["heteroscedastic", "homoscedastic"]
SIZES = (20, 40, 33)


@pytest.fixture
def data() -> ReplicatedData:
    return ReplicatedData(
        [
            SyntheticData(num_data=size, num_val=12, num_test=17, batch_size=8, eval_batch_size=10, seed=seed)
            for seed, size in enumerate(SIZES)
        ]
    )


def make_tasks(
    data: ReplicatedData, kind: Any = "concrete", noise: Any = "heteroscedastic", **options: Any
) -> list[RegressionTask]:
    tasks = []
    for seed, part in enumerate(data.replicas):
        torch.manual_seed(seed)
        mlp = MLP(1, 2 if noise == "heteroscedastic" else 1, hidden=(6, 5))
        network = GaussianHead(mlp) if noise == "heteroscedastic" else mlp
        settings = DropoutSettings(kind, init_p=0.1 + 0.1 * seed, p=0.2, length_scale=0.1)
        defaults: dict[str, Any] = {"optim": OptimSettings(lr=1e-2, p_lr=2e-2), "val_samples": 3, "test_samples": 4}
        tasks.append(
            RegressionTask(
                settings.apply(network, part.example_input),
                num_train=part.spec.num_train,
                inputs=part.spec.inputs,
                targets=part.spec.targets,
                noise=noise,
                seed=seed,
                **{**defaults, **options},
            )
        )
    return tasks


class Batches:
    """The same batches for all replicas together, or for one of them."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]], replica: int | None = None) -> None:
        self.batches, self.replica = batches, replica

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.batches:
            yield (x, y) if self.replica is None else (x[self.replica], y[self.replica])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optim": OptimSettings("sgd", lr=1e-2)},
        {"optim": OptimSettings("rmsprop", lr=1e-3)},
        {"kl_weight": 0.3, "train_samples": 4},
    ],
    ids=["adam", "sgd", "rmsprop", "kl_weight"],
)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_without_masks_training_equals_separate_trainings(
    data: ReplicatedData, trainer: Trainers, noise: str, options: dict[str, Any], clip: float | None
) -> None:
    batches = list(data.train_dataloader())
    tasks, alone = make_tasks(data, "none", noise, **options), make_tasks(data, "none", noise, **options)
    together = ReplicatedTask(tasks)
    settings: dict[str, Any] = {"max_epochs": 4, "gradient_clip_val": clip, "limit_val_batches": 0}
    trainer(**settings).fit(together, Batches(batches), data.val_dataloader())
    for index, task in enumerate(alone):
        trainer(**settings).fit(task, Batches(batches, index), data.val_dataloader())
        for name, value in task.state_dict().items():
            torch.testing.assert_close(tasks[index].state_dict()[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("samples", [1, 3])
def test_with_masks_the_loss_is_the_sum_of_separate_losses(
    data: ReplicatedData, noise: str, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over many masks, with its error bar."""
    tasks = make_tasks(data, "concrete", noise, train_samples=samples)
    together = ReplicatedTask(tasks)
    batch = next(iter(data.train_dataloader()))
    monkeypatch.setattr(NoisePrecision, "update", lambda *_: None)
    monkeypatch.setattr(StackedNoise, "update", lambda *_: None)
    draws = 300
    with torch.no_grad():
        summed = torch.stack([together.training_step(batch, 0) for _ in range(draws)]).double()
        parts = [
            torch.stack([task.training_step((batch[0][i], batch[1][i]), 0) for _ in range(draws)]).double()
            for i, task in enumerate(tasks)
        ]
    separate = torch.stack(parts).sum(0)
    error = ((summed.var() + separate.var()) / draws).sqrt().item()
    assert summed.mean().item() == pytest.approx(separate.mean().item(), abs=5 * error)
    assert error < 0.2 * abs(separate.mean().item())


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_evaluation_is_the_ordinary_one_of_each_replica(
    data: ReplicatedData, trainer: Trainers, kind: str, noise: str
) -> None:
    tasks = make_tasks(data, kind, noise, final_m_step=noise == "homoscedastic")
    together = ReplicatedTask(tasks)
    own = trainer(max_epochs=2)
    own.fit(together, data)
    own.test(together, data, verbose=False)
    results = copy.deepcopy(together.results)
    metrics = dict(own.callback_metrics)
    for index, task in enumerate(tasks):
        state = {name: value.clone() for name, value in task.state_dict().items()}
        alone = make_tasks(data, kind, noise)[index]
        alone.load_state_dict(state)
        trainer().test(alone, data.replicas[index], verbose=False)
        trainer().validate(alone, data.replicas[index], verbose=False)
        stages = ["test", "val"] if noise == "heteroscedastic" else ["test"]  # validation was before the final M step
        for stage in stages:
            assert results[index][stage].scalars == pytest.approx(alone.results[stage].scalars, rel=1e-6)
            assert results[index][stage].curves == alone.results[stage].curves
        assert results[index]["test"].num_points == 17
    means = {name: sum(r["test"].scalars[name] for r in results) / len(results) for name in results[0]["test"].scalars}
    assert {name: float(metrics[f"test/{name}"]) for name in means} == pytest.approx(means, rel=1e-5)


def test_the_final_m_step_is_the_ordinary_one(data: ReplicatedData, trainer: Trainers) -> None:
    tasks = make_tasks(data, "concrete", "homoscedastic", final_m_step=True)
    together = ReplicatedTask(tasks)
    own = trainer(max_epochs=2)
    own.fit(together, data)
    assert together.noise is not None
    for index, task in enumerate(tasks):
        assert task.noise is not None
        assert task.noise.is_final
        assert torch.equal(together.noise.final_tau[index], task.noise.final_tau)
        alone = make_tasks(data, "concrete", "homoscedastic", final_m_step=True)[index]
        assert alone.noise is not None
        alone.load_state_dict(task.state_dict())
        alone.noise.final_tau.zero_()
        trainer().test(alone, data.replicas[index], verbose=False)  # takes the step that is missing
        torch.testing.assert_close(alone.noise.final_tau, task.noise.final_tau)
    own.test(together, data, verbose=False)
    assert "nll_before_m_step" in together.results[0]["test"].scalars


def test_a_test_takes_the_m_step_that_a_checkpoint_lacks(
    data: ReplicatedData, trainer: Trainers, tmp_path: Path
) -> None:
    checkpoint = ModelCheckpoint(tmp_path, filename="last", save_on_train_epoch_end=True)
    own = trainer(max_epochs=1, callbacks=[checkpoint], enable_checkpointing=True)
    together = ReplicatedTask(make_tasks(data, "concrete", "homoscedastic", final_m_step=True))
    own.fit(together, data)
    assert together.noise is not None
    expected = together.noise.final_tau.clone()
    fresh = ReplicatedTask(make_tasks(data, "concrete", "homoscedastic", final_m_step=True))
    other = trainer(callbacks=[copy.deepcopy(checkpoint)], enable_checkpointing=True)
    other.test(fresh, data, ckpt_path=tmp_path / "last.ckpt", verbose=False, weights_only=True)
    assert fresh.noise is not None
    torch.testing.assert_close(fresh.noise.final_tau, expected)


def test_the_stack_of_noise_is_the_noise_of_each() -> None:
    noises = [
        NoisePrecision(2, num_train=n, decay=decay, min_std=floor)
        for n, decay, floor in ((1, 0.9, 0.0), (10, 0.99, 1.5), (1000, 0.5, 0.8))
    ]
    alone = copy.deepcopy(noises)
    stack = StackedNoise(noises)
    for _ in range(5):
        mean_squares = torch.rand(3, 2)
        mean_squares[0, 1] = float("inf")
        stack.update(mean_squares)
        for noise, mean_square in zip(alone, mean_squares, strict=True):
            noise.update(mean_square)
    stack.write_back()
    for index, (noise, expected) in enumerate(zip(noises, alone, strict=True)):
        torch.testing.assert_close(noise.state_dict(), expected.state_dict())
        torch.testing.assert_close(stack.running_tau[index], expected.running_tau)
    assert stack.running_tau[1].tolist() == pytest.approx([1.5**-2] * 2)  # the bound holds
    noises[1].final_m_step(torch.tensor([0.3, 0.4]), 100)
    stack.read()
    assert torch.equal(stack.final_tau[1], noises[1].final_tau)
    assert torch.equal(stack.final_tau[0], torch.zeros(2, dtype=torch.float64))


def test_resuming_is_exact(data: ReplicatedData, trainer: Trainers, tmp_path: Path) -> None:
    def run(resume: Path | None = None) -> ReplicatedTask:
        task = ReplicatedTask(make_tasks(data, "concrete", "homoscedastic"))
        torch.manual_seed(5)
        checkpoint = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
        own = trainer(max_epochs=4, callbacks=[RandomState(), checkpoint], enable_checkpointing=True)
        own.fit(task, data, ckpt_path=resume, weights_only=True)
        return task

    whole = run()
    rest = run(tmp_path / "epoch=1.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, rest.state_dict()[name]), name
    assert not any("network" in name for name in whole.state_dict())  # the tasks' copies stay out


def test_a_broken_replica_leaves_the_others_alone(data: ReplicatedData, trainer: Trainers) -> None:
    batches = list(data.train_dataloader())
    tasks, healthy = make_tasks(data, "none"), make_tasks(data, "none")
    with torch.no_grad():
        next(tasks[1].network.parameters()).fill_(float("nan"))
    trainer(max_epochs=2, limit_val_batches=0).fit(ReplicatedTask(tasks), Batches(batches), data.val_dataloader())
    trainer(max_epochs=2, limit_val_batches=0).fit(ReplicatedTask(healthy), Batches(batches), data.val_dataloader())
    for index in (0, 2):
        torch.testing.assert_close(tasks[index].network.state_dict(), healthy[index].network.state_dict())


def test_what_is_logged(data: ReplicatedData, trainer: Trainers) -> None:
    together = ReplicatedTask(make_tasks(data, noise="homoscedastic"))
    own = trainer(max_epochs=1)
    own.fit(together, data)
    names = {"train/nll", "train/kl", "train/loss", "train/noise_std", "val/nll", "val/rmse", "val/calibration_rmse"}
    assert names <= set(own.callback_metrics)
    assert all(value.isfinite() for value in own.callback_metrics.values())


def test_the_network_for_records_has_the_mean_p(data: ReplicatedData) -> None:
    for kind in ("none", "fixed", "concrete"):
        together = ReplicatedTask(make_tasks(data, kind))
        expected = {name: sum(ps) / len(ps) for name, ps in together.stacked.probabilities().items()}
        assert dropout_probabilities(together.network) == pytest.approx(expected)
        assert dropout_probabilities(together.tasks[0].network) != pytest.approx(expected) or kind != "concrete"


def test_norms_are_clipped_for_each_replica() -> None:
    networks = [nn.Linear(3, 2) for _ in range(4)]
    for scale, network in enumerate(networks):
        for parameter in network.parameters():
            parameter.grad = scale * torch.randn(parameter.shape)
    gradients = [
        torch.stack([q.grad for q in same if q.grad is not None])
        for same in zip(*(n.parameters() for n in networks), strict=True)
    ]
    clip_norms(gradients, 1.5)
    clip_norms([], 1.5)
    for index, network in enumerate(networks):
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.5)
        for gradient, parameter in zip(gradients, network.parameters(), strict=True):
            torch.testing.assert_close(gradient[index], parameter.grad)


def test_tasks_that_cannot_train_as_one(data: ReplicatedData, trainer: Trainers) -> None:
    first, second = make_tasks(data)[0], make_tasks(data, optim=OptimSettings(lr=1))[1]
    with pytest.raises(UserError, match=r"optim must be the same for all; got OptimSettings\(.*lr=0\.01"):
        ReplicatedTask([first, second])
    with pytest.raises(UserError, match=r"task\.train_samples must be the same for all; got 1 and 2"):
        ReplicatedTask([first, make_tasks(data, train_samples=2)[1]])
    with pytest.raises(UserError, match=r"task\.noise must be the same"):
        ReplicatedTask([first, make_tasks(data, noise="homoscedastic")[1]])
    with pytest.raises(ValueError, match="at least one task"):
        ReplicatedTask([])
