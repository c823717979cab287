from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from concrete_dropout.control.policies import MLPPolicies, Population, RBFPolicies, bumps, saturate

P, K, D = 6, 5, 3
Make = Callable[..., Population]
kinds = pytest.mark.parametrize("make", [RBFPolicies, MLPPolicies])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_saturation_is_pilcos() -> None:
    x = torch.linspace(-7, 7, 101, dtype=torch.float64)
    torch.testing.assert_close(saturate(x), (9 * torch.sin(x) + torch.sin(3 * x)) / 8)


def test_saturation_is_smooth_bounded_and_almost_linear_at_0() -> None:
    x = torch.linspace(-7, 7, 1001, dtype=torch.float64, requires_grad=True)
    y = saturate(x)
    assert y.abs().max() <= 1
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert slope[500].item() == pytest.approx(1.5)
    at_limit = torch.tensor(math.pi / 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(saturate(at_limit), at_limit)[0].item() == pytest.approx(0, abs=1e-12)


@kinds
def test_each_policy_sees_its_own_features_only(make: Make) -> None:
    policies = make(D, [2.0, 0.5], size=P, generator=generator())
    features = torch.randn(K, P, D, generator=generator(1))
    actions = policies(features)
    assert actions.shape == (K, P, 2)
    assert (actions.abs() <= torch.tensor([2.0, 0.5])).all()
    features[:, 2] += 1.0
    changed = (policies(features) != actions).any(-1).any(0)
    assert changed.tolist() == [False, False, True, False, False, False]


def one_by_one(policies: RBFPolicies, features: Tensor) -> Tensor:
    """The definition, one bump at a time."""
    out = torch.zeros(K, P, 1)
    for k in range(K):
        for p in range(P):
            for centre, weight in zip(policies.centres[p], policies.weights[p], strict=True):
                distance = (features[k, p] - centre) / policies.log_widths[p].exp()
                out[k, p] += weight * torch.exp(-distance.square().sum() / 2)
    return out


def test_rbf_policies_are_sums_of_bumps() -> None:
    policies = RBFPolicies(D, [1.0], size=P, units=7, width=1.3, generator=generator())
    features = torch.randn(K, P, D, generator=generator(1))
    torch.testing.assert_close(policies.prepared()(features), one_by_one(policies, features), rtol=1e-4, atol=1e-5)


def test_gradients_of_bumps() -> None:
    shapes = ((P, K, D), (P, 7, D), (P, 7, 2))
    tensors = [torch.randn(shape, dtype=torch.float64, generator=generator(), requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(bumps, tensors)


@kinds
def test_features_are_scaled(make: Make) -> None:
    plain, scaled = (make(D, [1.0], size=P, scale=scale, generator=generator()) for scale in (None, [1.0, 2.0, 5.0]))
    features = torch.randn(K, P, D, generator=generator(1))
    torch.testing.assert_close(scaled(features * torch.tensor([1.0, 2.0, 5.0])), plain(features))


@kinds
def test_a_single_policy(make: Make) -> None:
    policies = make(D, [1.0], size=P, generator=generator())
    features = torch.randn(K, 1, D, generator=generator(1))
    expected = policies(features.expand(-1, P, -1))[:, 2:3]
    torch.testing.assert_close(policies.single(2)(features), expected)


@kinds
def test_strength_scales_what_comes_out(make: Make) -> None:
    weak, strong = (make(D, [1.0], size=P, strength=strength, generator=generator()) for strength in (1.0, 3.0))
    features = torch.randn(K, P, D, generator=generator(1))
    torch.testing.assert_close(strong.prepared()(features), 3 * weak.prepared()(features))


@kinds
def test_copies_replace_the_worse(make: Make) -> None:
    policies = make(D, [1.0], size=P, generator=generator())
    before = [q.detach().clone() for q in policies.parameters()]
    policies.replace(torch.tensor([0, 4]), torch.tensor([1, 3]), spread=0.0)
    for now, old in zip(policies.parameters(), before, strict=True):
        torch.testing.assert_close(now[[0, 4]], old[[1, 3]], rtol=0, atol=0)
        torch.testing.assert_close(now[[1, 2, 3, 5]], old[[1, 2, 3, 5]], rtol=0, atol=0)


def test_copies_are_changed_by_the_size_of_their_parameters() -> None:
    policies = RBFPolicies(D, [1.0], size=2, units=2000, generator=generator())
    with torch.no_grad():
        policies.centres[1] *= 10
    policies.replace(torch.tensor([0]), torch.tensor([1]), spread=0.1, generator=generator(2))
    assert (policies.centres[0] - policies.centres[1]).std().item() == pytest.approx(1.0, rel=0.05)


@kinds
def test_the_state_dict_is_the_population(make: Make) -> None:
    first, second = (make(D, [1.0], size=P, generator=generator(seed)) for seed in (0, 1))
    features = torch.randn(K, P, D)
    assert not torch.equal(first(features), second(features))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(features), second(features))
    assert first.size == P


def test_a_part_of_a_population_is_its_own() -> None:
    population = RBFPolicies(2, [1.0], size=5, units=3, generator=torch.Generator().manual_seed(0))
    features = torch.randn(4, 1, 2)
    part = population.part(torch.tensor([3, 1]))
    assert part.size == 2
    torch.testing.assert_close(part.single(0)(features), population.single(3)(features))
    part.renew(torch.arange(2), torch.Generator().manual_seed(1))
    assert not torch.allclose(part.single(0)(features), population.single(3)(features))
    population.put(torch.tensor([4, 0]), part)
    torch.testing.assert_close(part.single(0)(features), population.single(4)(features))
    torch.testing.assert_close(part.single(1)(features), population.single(0)(features))
