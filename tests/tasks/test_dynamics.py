from __future__ import annotations

import pytest
import torch
from torch import Tensor

from concrete_dropout import kl_divergence, swap_dropout
from concrete_dropout.errors import UserError
from concrete_dropout.models import MLP, GaussianHead, SkipMLP
from concrete_dropout.scaling import Affine
from concrete_dropout.tasks.dynamics import DynamicsTask

K, P, S, A = 5, 3, 2, 1


def inputs_of(states: Tensor, actions: Tensor) -> Tensor:
    return torch.cat([states, actions], dim=-1)


def make(kind: str = "concrete", noise: str = "heteroscedastic", of: type[MLP] | type[SkipMLP] = MLP) -> DynamicsTask:
    torch.manual_seed(0)
    network = of(S + A, 2 * S if noise == "heteroscedastic" else S, hidden=(16,))
    model = GaussianHead(network) if noise == "heteroscedastic" else network
    options = {"init_p": 0.4} if kind == "concrete" else {}
    swap_dropout(model, kind, example_input=torch.zeros(1, S + A), **options)  # type: ignore[arg-type]
    scales = (
        Affine(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])),
        Affine(torch.ones(S), 2 * torch.ones(S)),
    )
    return DynamicsTask(model, num_train=10, inputs=scales[0], targets=scales[1], noise=noise)  # type: ignore[arg-type]


def test_particles_keep_their_function() -> None:
    task = make()
    states, actions = torch.zeros(K, P, S), torch.zeros(K, P, A)
    with task.function_draws(K, seed=1) as step:
        first, second = step(states, states, actions), step(states, states, actions)
    assert torch.equal(first, second)
    assert torch.equal(first[:, 0], first[:, 2])  # all policies meet the same functions
    assert len({tuple(row) for row in first[:, 0].tolist()}) > 1
    with task.function_draws(K, seed=2) as step:
        assert not torch.equal(step(states, states, actions), first)


def test_the_mean_model_in_original_units() -> None:
    task = make("none")
    states, actions = torch.randn(K, P, S), torch.randn(K, P, A)
    with task.function_draws(0) as step:
        after = step(states, states, actions)
    prediction = task.predict(inputs_of(states, actions).flatten(0, 1), samples=0)
    torch.testing.assert_close((after - states).double().flatten(0, 1), prediction.mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_gradients_reach_actions_and_leave_weights_alone(noise: str) -> None:
    task = make(noise=noise)
    actions, start = torch.zeros(K, P, A, requires_grad=True), torch.zeros(K, P, S)
    with task.function_draws(K, seed=0) as step:
        step(start, start, actions).sum().backward()
    assert actions.grad is not None
    assert actions.grad.abs().sum() > 0
    assert all(weight.grad is None and weight.requires_grad for weight in task.network.parameters())


@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
@pytest.mark.parametrize("particles", [0, K])
@pytest.mark.parametrize("of", [MLP, SkipMLP])
def test_layers_in_one_step_give_the_same_numbers_and_gradients(
    of: type[MLP] | type[SkipMLP], kind: str, noise: str, particles: int
) -> None:
    task = make(kind, noise, of)
    assert task._paths() is not None
    states, actions = torch.randn(K, P, S), torch.randn(K, P, A)
    found = []
    for fused in (True, False):
        x = states.clone().requires_grad_()
        with task.function_draws(particles, seed=3, fused=fused) as step:
            after = step(x, x, actions)
        found += [(after, torch.autograd.grad(after.square().sum(), x)[0])]
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_other_networks_go_layer_by_layer() -> None:
    task = make("fixed", "homoscedastic")
    task.network.layers[2] = torch.nn.Tanh()  # type: ignore[union-attr, operator]
    assert task._paths() is None
    states, actions = torch.randn(K, P, S), torch.randn(K, P, A)
    with task.function_draws(K, seed=3) as step:
        first = step(states, states, actions)
    with task.function_draws(K, seed=3, fused=False) as step:
        torch.testing.assert_close(step(states, states, actions), first)


def test_noise_has_a_lower_bound() -> None:
    task = make(noise="homoscedastic")
    assert task.noise is not None
    for floor in (0.0, 0.2):
        task.noise.min_std = floor
        for _ in range(2000):
            task.noise.update(torch.full((S,), 1e-4))
        assert (task.noise.tau.max().item() <= 25.0 + 1e-9) is (floor > 0)


@pytest.mark.parametrize(("noise", "value"), [("homoscedastic", -0.1), ("heteroscedastic", 0.2)])
def test_impossible_bounds_of_noise(noise: str, value: float) -> None:
    network = make("none", "homoscedastic").network  # without a head that could add it
    scales = {"inputs": Affine.identity(S + A), "targets": Affine.identity(S)}
    with pytest.raises((ValueError, UserError), match=rf"task\.min_noise={value}"):
        DynamicsTask(network, num_train=1, noise=noise, min_noise=value, **scales)


@pytest.mark.parametrize("training", [True, False])
def test_modes_come_back_also_after_an_error(training: bool) -> None:
    task = make()
    task.train(training)
    with pytest.raises(RuntimeError, match="stop"), task.function_draws(K):
        raise RuntimeError("stop")
    assert task.network.training is training
    assert all(weight.requires_grad for weight in task.network.parameters())


def test_the_objective_follows_the_data() -> None:
    task = make().eval()
    batch = torch.randn(4, S + A), torch.randn(4, S)
    few = task.training_step(batch, 0)
    task.follow(1000, Affine.identity(S + A), Affine.identity(S))
    many = task.training_step(batch, 0)
    kl = kl_divergence(task.network)
    torch.testing.assert_close(few - many, kl / 10 - kl / 1000)
    assert torch.equal(task.inputs.mean, torch.zeros(S + A, dtype=torch.float64))
    shared = make(noise="homoscedastic")
    shared.follow(1000, Affine.identity(S + A), Affine.identity(S))
    assert shared.noise is not None
    assert shared.noise.num_train == 1000
