"""Regression: original units, both kinds of noise, and networks of the user's own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from scipy import stats
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, Normal
from torch.utils.data import DataLoader

from concrete_dropout import mc_sampling, swap_dropout
from concrete_dropout.errors import UserError
from concrete_dropout.metrics import LEVELS, gaussian_crps
from concrete_dropout.montecarlo import mc_predict
from concrete_dropout.settings import OptimSettings

from .conftest import Data, make_task, rows_of, swapped_network

Trainers = Callable[..., pl.Trainer]


def mixture(task: Any, x: Tensor, samples: int, seed: int) -> MixtureSameFamily:
    """The predictive distribution in original units, from a loop over plain passes; one for each row and output."""
    with torch.no_grad(), mc_sampling(task.network, seed=seed, mask=task.mask):
        outputs = [task.network(x) for _ in range(samples)]
    if task.noise is None:
        mean, log_var = (torch.stack(part).double() for part in zip(*outputs, strict=True))
    else:
        mean = torch.stack(outputs).double()
        log_var = -task.noise.tau.log().expand_as(mean)
    loc = task.targets.mean + task.targets.std * mean  # (S, rows, O)
    scale = task.targets.std * (0.5 * log_var).exp()
    weights = Categorical(torch.ones(*mean.shape[1:], samples).double())
    return MixtureSameFamily(weights, Normal(loc.movedim(0, -1), scale.movedim(0, -1)))


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
@pytest.mark.parametrize(("kind", "samples", "components"), [("concrete", 9, 9), ("concrete", 0, 1), ("none", 9, 1)])
def test_components_of_the_mixture(data: Data, noise: Any, kind: str, samples: int, components: int) -> None:
    task = make_task(Data(outputs=2), kind, noise).eval()
    x = data.inputs.restore(rows_of(data.test)[0])
    means, variances = task.components(x, samples, seed=4)
    assert means.shape == variances.shape == (components, len(x), 2)
    wanted = task.predict(x, samples, seed=4)
    torch.testing.assert_close(means.mean(0), wanted.mean, atol=0, rtol=1e-5)
    torch.testing.assert_close(means.var(0, correction=0), wanted.epistemic, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(variances.mean(0), wanted.aleatoric, atol=0, rtol=1e-5)


# -- original units ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_a_step_returns_the_prediction_in_original_units(data: Data, noise: Any, kind: str) -> None:
    task = make_task(data, kind, noise)
    x, y = rows_of(data.test)
    outputs = task.evaluate((x, y), 9, seed=4)
    reference = mixture(task, x, 9, seed=4)
    original = 100 + 20 * y.double()
    torch.testing.assert_close(outputs["inputs"], torch.tensor([10.0, -3.0]) + torch.tensor([4, 0.1]).double() * x)
    torch.testing.assert_close(outputs["targets"], original)
    prediction = outputs["prediction"]
    close: dict[str, float] = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(prediction.mean, reference.mean, **close)
    torch.testing.assert_close(prediction.predictive, reference.variance, **close)
    torch.testing.assert_close(prediction.log_likelihood, reference.log_prob(original).sum(1), **close)
    torch.testing.assert_close(prediction.pit, reference.cdf(original), **close)
    assert all(value.dtype is torch.float64 for value in vars(prediction).values())
    if kind == "none":
        assert (prediction.epistemic == 0).all()


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_several_outputs_with_units_of_their_own(noise: Any) -> None:
    data = Data(outputs=3)
    task = make_task(data, noise=noise)
    if task.noise is not None:
        task.noise.update(torch.tensor([0.1, 0.5, 5.0]))
    x, y = rows_of(data.test)
    prediction = task.evaluate((x, y), 6, seed=0)["prediction"]
    reference = mixture(task, x, 6, seed=0)
    original = data.targets.restore(y)
    torch.testing.assert_close(prediction.pit, reference.cdf(original), rtol=1e-5, atol=1e-5)
    # A row has one mask for all of its outputs: the mixture is over rows, not over outputs.
    component = reference.component_distribution.log_prob(original.unsqueeze(-1)).sum(1)  # (rows, S)
    expected = torch.logsumexp(component, 1) - math.log(6)
    torch.testing.assert_close(prediction.log_likelihood, expected, rtol=1e-5, atol=1e-5)


def test_stage_results_against_direct_computation(data: Data, trainer: Trainers) -> None:
    task = make_task(data)
    trainer().test(task, DataLoader(data.test, 30), verbose=False)
    reference = mixture(task, rows_of(data.test)[0], 8, seed=0)
    y = data.targets.restore(rows_of(data.test)[1])
    scalars, curves = task.results["test"].scalars, task.results["test"].curves
    assert scalars["log_likelihood"] == pytest.approx(reference.log_prob(y).mean().item(), rel=1e-5)
    assert scalars["nll"] == -scalars["log_likelihood"]
    assert scalars["rmse"] == pytest.approx((reference.mean - y).square().mean().sqrt().item(), rel=1e-5)
    assert scalars["predictive_std"] == pytest.approx(reference.variance.mean().sqrt().item(), rel=1e-5)
    assert scalars["sharpness"] == pytest.approx(reference.stddev.mean().item(), rel=1e-5)
    crps = gaussian_crps(y, reference.mean, reference.variance).mean().item()
    assert scalars["crps"] == pytest.approx(crps, rel=1e-5)
    inside = [((2 * reference.cdf(y) - 1).abs() <= level).double().mean().item() for level in LEVELS]
    assert curves["observed"] == pytest.approx(inside, abs=1e-9)


def test_a_known_gaussian_is_scored_as_theory_says(trainer: Trainers) -> None:
    """No error, and the true noise: NLL = log(sigma sqrt(2 pi e)), CRPS = sigma / sqrt(pi), calibrated."""

    class Truth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout, self.linear = nn.Dropout(0.1), nn.Linear(2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return 0 * self.linear(self.dropout(x)), torch.full((x.shape[0], 1), 2 * math.log(0.5))

    data = Data()
    network = swap_dropout(Truth(), "none", example_input=torch.zeros(1, 2))
    quantiles = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    y = torch.tensor(stats.norm.ppf(quantiles, scale=0.5)).float().unsqueeze(1)
    rows = torch.utils.data.TensorDataset(torch.zeros(20_000, 2), y)
    task = make_task(data, network=network)
    trainer().test(task, DataLoader(rows, 6000), verbose=False)
    scalars = task.results["test"].scalars
    sigma = 20 * 0.5  # in original units
    assert scalars["nll"] == pytest.approx(math.log(sigma * math.sqrt(2 * math.pi * math.e)), abs=2e-4)
    assert scalars["rmse"] == pytest.approx(sigma, rel=2e-4)
    assert scalars["crps"] == pytest.approx(sigma / math.sqrt(math.pi), rel=1e-3)
    assert scalars["calibration_rmse"] < 1e-3
    assert scalars["aleatoric_std"] == pytest.approx(sigma)
    assert scalars["epistemic_std"] == 0
    assert task.results["test"].num_points == 20_000


def test_predict_takes_and_gives_original_units(data: Data) -> None:
    task = make_task(data)
    x, y = rows_of(data.test)
    inside = task.evaluate((x, y), 6, seed=2)["prediction"]
    outside = task.predict(data.inputs.restore(x), 6, seed=2)
    torch.testing.assert_close(outside.mean, inside.mean, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(outside.predictive, inside.predictive, rtol=1e-4, atol=1e-4)
    assert outside.log_likelihood is None
    assert outside.pit is None
    assert not outside.mean.requires_grad
    assert (task.predict(data.inputs.restore(x), 0).epistemic == 0).all()


def test_masks_may_be_hard_in_evaluation(data: Data) -> None:
    network = swapped_network()
    x, y = rows_of(data.test)
    for mask in ("concrete", "bernoulli"):
        task = make_task(data, network=network, mask=mask)
        reference = mixture(task, x, 5, seed=1)
        prediction = task.evaluate((x, y), 5, seed=1)["prediction"]
        torch.testing.assert_close(prediction.mean, reference.mean, rtol=1e-5, atol=1e-5)


# -- networks ------------------------------------------------------------------------------------------------------


def test_outputs_that_do_not_fit_the_noise_are_the_users_to_mend(data: Data) -> None:
    batch = rows_of(data.train)
    mean_only = make_task(data, network=swapped_network(noise="homoscedastic"))
    with pytest.raises(UserError, match=r"task\.noise=heteroscedastic needs .* GaussianHead"):
        mean_only.training_step(batch, 0)
    both = make_task(data, noise="homoscedastic", network=swapped_network())
    with pytest.raises(UserError, match=r"task\.noise=homoscedastic needs"):
        both.training_step(batch, 0)


def test_a_mean_that_would_broadcast_is_refused(data: Data) -> None:
    x, y = rows_of(data.train)
    with pytest.raises(ValueError, match="must have the shape of y"):
        make_task(data).training_step((x, y[:, 0]), 0)


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_any_network_will_do(data: Data, trainer: Trainers, noise: Any) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
            self.mean, self.log_var = nn.Linear(8, 1), nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Any:
            h = self.body(x)
            return (self.mean(h), self.log_var(h)) if noise == "heteroscedastic" else self.mean(h)

    network = swap_dropout(Own(), "concrete", example_input=torch.zeros(1, 2))
    task, engine = make_task(data, network=network, noise=noise), trainer()
    engine.fit(task, datamodule=data)
    engine.test(task, datamodule=data, verbose=False)
    assert math.isfinite(task.results["test"].scalars["nll"])


# -- homoscedastic noise -------------------------------------------------------------------------------------------


def test_tau_is_a_constant_for_the_gradient_and_that_of_the_steps_before(data: Data) -> None:
    task = make_task(data, "none", "homoscedastic", kl_weight=0.0)
    assert task.noise is not None
    x, y = rows_of(data.train)
    tau = task.noise.tau.item()
    task.training_step((x, y), 0).backward()
    last = task.network.layers[4]  # type: ignore[index,union-attr]
    residual = task.network(x).detach() - y
    assert last.bias.grad.item() == pytest.approx((tau * residual).mean().item(), rel=1e-5)
    mean_square = residual.double().square().mean()
    torch.testing.assert_close(
        task.noise.running_tau,
        task.noise.m_step((10 * 0.99 + mean_square) / (10 * 0.99 + 1), 64).view(1),
        rtol=1e-6,
        atol=0,
    )


def test_samples_count_by_their_likelihood_in_the_m_step(data: Data) -> None:
    """The bound of S samples has the derivative (1 / tau - msr) / 2 in tau, where msr weighs samples by likelihood."""
    task = make_task(data, noise="homoscedastic", train_samples=4)
    assert task.noise is not None
    outputs: list[Tensor] = []
    task.network.register_forward_hook(lambda module, args, out: outputs.append(out.detach().double()))
    x, y = rows_of(data.train)
    tau = task.noise.tau.clone().requires_grad_()
    task.training_step((x, y), 0)
    density = Normal(outputs[0].reshape(4, 64, 1), tau.rsqrt()).log_prob(y.double()).sum(-1)  # (S, rows)
    (derivative,) = torch.autograd.grad(torch.logsumexp(density, 0).mean(), tau)
    mean_square = (task.noise.mean_sum - 0.99 * 0.1) / 0.01  # undo the running mean of one step
    torch.testing.assert_close(0.5 * (1 / tau - mean_square), derivative, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_the_noise_is_found(trainer: Trainers, kind: str) -> None:
    data = Data(rows=600, noise=0.5, batch_size=60)
    task = make_task(data, kind, "homoscedastic", optim=OptimSettings(lr=1e-2, p_lr=0.05))
    trainer(max_epochs=60, limit_val_batches=0).fit(task, datamodule=data)
    assert task.noise is not None
    noise = task.noise.tau.rsqrt().item()
    x, y = rows_of(data.train)
    passes = mc_predict(task.network, x, "gaussian", 200, seed=0)
    expected = ((y - passes.mean).square() + passes.epistemic).mean().sqrt().item()
    assert noise == pytest.approx(expected, rel=0.05)  # E_q of the residuals of all data
    if kind == "none":
        assert noise == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_noise_has_a_lower_bound(data: Data, trainer: Trainers, noise: Any) -> None:
    free, bounded = (make_task(data, "none", noise, min_noise=floor) for floor in (0.0, 2.0))
    for task in (free, bounded):
        trainer(max_epochs=3).fit(task, datamodule=data)
    x = data.inputs.restore(rows_of(data.train)[0])
    smallest = 2.0 * data.targets.std.item()
    assert (free.predict(x, 0).aleatoric.sqrt() < smallest).all()
    assert (bounded.predict(x, 0).aleatoric.sqrt() >= smallest - 1e-6).all()


def test_a_network_without_a_head_cannot_add_noise(data: Data) -> None:
    with pytest.raises(UserError, match=r"task\.min_noise=0\.1 .* GaussianHead"):
        make_task(data, network=swapped_network(noise="homoscedastic"), min_noise=0.1)


def test_the_noise_is_logged_in_original_units(data: Data, trainer: Trainers) -> None:
    task, engine = make_task(data, noise="homoscedastic"), trainer()
    engine.fit(task, datamodule=data)
    assert task.noise is not None
    assert engine.callback_metrics["train/noise_std"].item() == pytest.approx(20 * task.noise.tau.item() ** -0.5)


def expected_tau(task: Any, rows: Any, samples: int) -> float:
    """The final M step by a loop over passes, in float64."""
    x, y = rows_of(rows)
    with torch.no_grad(), mc_sampling(task.network, seed=task.seed + (1 << 32)):
        squares = torch.stack([(y - task.network(x)).double().square() for _ in range(samples)])
    return task.noise.m_step(squares.mean((0, 1)), len(rows)).item()


def test_the_final_m_step_takes_validation_data(data: Data, trainer: Trainers) -> None:
    task, engine = make_task(data, noise="homoscedastic", final_m_step=True), trainer(max_epochs=20)
    engine.fit(task, datamodule=data)
    assert task.noise is not None
    assert task.noise.is_final
    assert task.noise.tau.item() == pytest.approx(expected_tau(task, data.val, 5), rel=1e-5)
    engine.test(task, datamodule=data, verbose=False)
    scalars = task.results["test"].scalars
    task.noise.final_tau.zero_()
    task.final_m_step = False
    engine.test(task, datamodule=data, verbose=False)
    without = task.results["test"].scalars
    assert scalars["log_likelihood_before_m_step"] == pytest.approx(without["log_likelihood"], rel=1e-6)
    assert scalars["nll_before_m_step"] == pytest.approx(without["nll"], rel=1e-6)
    assert scalars["nll"] != pytest.approx(without["nll"], rel=1e-5)
    assert scalars["rmse"] == pytest.approx(without["rmse"], rel=1e-6)  # the mean does not depend on tau
    assert "nll_before_m_step" not in without


@pytest.mark.parametrize("kind", ["none", "concrete"])
def test_the_final_m_step_is_that_of_the_bound_that_was_trained(kind: str) -> None:
    """With S training samples: the derivative of the S-sample bound over all rows is (1 / tau - msr) / 2."""
    data = Data(outputs=2)
    task = make_task(data, kind, "homoscedastic", train_samples=4)
    assert task.noise is not None
    x, y = rows_of(data.val)
    with torch.no_grad(), mc_sampling(task.network, seed=1 << 32):
        means = torch.stack([task.network(x).double() for _ in range(8)]).unflatten(0, (2, 4))  # two groups of S
    tau = task.noise.tau.clone().requires_grad_()
    density = Normal(means, tau.rsqrt()).log_prob(y.double()).sum(-1)
    (derivative,) = torch.autograd.grad(torch.logsumexp(density, 1).mean(), tau)
    mean_square = (1 / tau - 2 * derivative).detach()
    task.take_final_m_step([(x, y)], samples=6)  # rounded up to 8
    torch.testing.assert_close(task.noise.tau, task.noise.m_step(mean_square, len(x)), rtol=1e-5, atol=0)


def test_the_final_m_step_takes_training_data_where_there_is_nothing_else(data: Data, trainer: Trainers) -> None:
    task = make_task(data, noise="homoscedastic", final_m_step=True)
    loader = DataLoader(data.train, 15, shuffle=True, drop_last=True)
    trainer(max_epochs=20, limit_val_batches=0).fit(task, loader, data.val_dataloader())
    assert task.noise is not None
    assert task.noise.is_final
    assert task.noise.tau.item() == pytest.approx(expected_tau(task, data.train, 5), rel=1e-5)


def test_without_being_asked_there_is_no_final_m_step(data: Data, trainer: Trainers) -> None:
    task, engine = make_task(data, noise="homoscedastic"), trainer()
    engine.fit(task, datamodule=data)
    engine.test(task, datamodule=data, verbose=False)
    assert task.noise is not None
    assert not task.noise.is_final
    assert "nll_before_m_step" not in task.results["test"].scalars


def test_weights_of_an_earlier_checkpoint_get_their_own_final_m_step(
    data: Data, trainer: Trainers, tmp_path: Path
) -> None:
    saver = ModelCheckpoint(tmp_path, monitor="val/nll", save_top_k=-1)
    task = make_task(data, noise="homoscedastic", final_m_step=True)
    trainer(callbacks=[saver], enable_checkpointing=True).fit(task, datamodule=data)
    other, engine = make_task(data, noise="homoscedastic", final_m_step=True), trainer()
    other.load_state_dict(torch.load(saver.best_model_path, weights_only=True)["state_dict"])
    assert other.noise is not None
    assert not other.noise.is_final
    engine.test(other, datamodule=data, verbose=False)
    assert other.noise.is_final
    assert "nll_before_m_step" in other.results["test"].scalars


def test_a_test_without_training_data_says_what_it_leaves_out(
    data: Data, trainer: Trainers, caplog: pytest.LogCaptureFixture
) -> None:
    task = make_task(data, noise="homoscedastic", final_m_step=True)
    with caplog.at_level(logging.WARNING):
        trainer().test(task, data.test_dataloader(), verbose=False)
    assert "task.final_m_step=true was left out" in caplog.text


def test_an_overfitted_network_cannot_carry_tau_away(caplog: pytest.LogCaptureFixture) -> None:
    data = Data(rows=8)
    task = make_task(data, "none", "homoscedastic")
    assert task.noise is not None
    x, _ = rows_of(data.train)
    with torch.no_grad():
        memorised = task.network(x)  # residuals of zero
    before = task.noise.tau.item()
    with caplog.at_level(logging.WARNING):
        task.take_final_m_step([(x, memorised)])
    assert task.noise.tau.item() == pytest.approx(4 * before)
    assert "bound" in caplog.text


def test_noise_from_the_network_has_no_m_step(data: Data, trainer: Trainers) -> None:
    task = make_task(data, final_m_step=True)
    trainer().fit(task, datamodule=data)  # the flag may stay on for both kinds of noise
    with pytest.raises(UserError, match=r"task\.noise=homoscedastic"):
        task.take_final_m_step([])


def test_one_training_row(trainer: Trainers) -> None:
    data = Data(rows=1)
    task = make_task(data, noise="homoscedastic", final_m_step=True)
    trainer(limit_val_batches=0).fit(task, datamodule=data)
    assert task.noise is not None
    assert 0 < task.noise.tau.item() < math.inf
