from __future__ import annotations

import torch
from torch import Tensor

from concrete_dropout.control.cartpole import CartPole
from concrete_dropout.control.policies import RBFPolicies
from concrete_dropout.control.rollouts import match_moments, rollout, spread, total_reward
from concrete_dropout.data.features import Features


def dynamics(states: Tensor, features: Tensor, actions: Tensor) -> Tensor:
    return CartPole().step(states, actions)


FEATURES = Features(size=4, angles=(2,))


def test_a_rollout_is_a_loop_over_steps() -> None:
    system, policies = CartPole(), RBFPolicies(5, [10.0], size=3, generator=torch.Generator().manual_seed(0))
    start = spread(system.start(2, torch.Generator().manual_seed(1)), 3)
    run = rollout(policies, dynamics, FEATURES, start, steps=4)
    assert (run.states.shape, run.actions.shape) == ((5, 2, 3, 4), (4, 2, 3, 1))
    assert torch.equal(run.states[0, :, 0], run.states[0, :, 2])
    for t in range(4):
        torch.testing.assert_close(run.states[t + 1], system.step(run.states[t], run.actions[t]))
    rewards = total_reward(system.reward, run.states)
    torch.testing.assert_close(rewards, sum(system.reward(run.states[t]) for t in range(1, 5)))
    gradients = torch.autograd.grad(rewards.sum(), list(policies.parameters()))
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_policies_do_not_see_each_other() -> None:
    system = CartPole()
    policies = RBFPolicies(5, [10.0], size=4, generator=torch.Generator().manual_seed(0))
    start = spread(system.start(3), 4)

    def returns() -> Tensor:
        return total_reward(lambda s: system.reward(s, 1.0), rollout(policies, dynamics, FEATURES, start, 5).states)

    before = returns()
    with torch.no_grad():
        policies.weights[1] += 1.0
    assert ((returns() - before).abs() > 1e-6).any(0).tolist() == [False, True, False, False]


def test_matched_moments() -> None:
    states = torch.randn(50_000, 2, 4) * torch.tensor([1.0, 2.0, 3.0, 0.0]) + torch.arange(4.0)
    matched = match_moments(states, torch.Generator().manual_seed(0))
    torch.testing.assert_close(matched.mean(0), states.mean(0), rtol=0, atol=0.05)
    torch.testing.assert_close(matched.std(0), states.std(0), rtol=0.02, atol=1e-6)
    assert not torch.allclose(matched[:10], states[:10])
