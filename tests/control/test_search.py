from __future__ import annotations

import pytest
import torch
from torch import Tensor

from concrete_dropout.control.policies import MLPPolicies, Population
from concrete_dropout.control.search import SearchSettings, begin_anew, clipped, search, select


def make(size: int = 8) -> Population:
    return MLPPolicies(2, [1.0], size=size, hidden=(4,), generator=torch.Generator().manual_seed(0))


FEATURES = torch.randn(16, 1, 2, generator=torch.Generator().manual_seed(1))


def closeness(population: Population, seed: int = 0) -> Tensor:
    """How well actions follow the first feature, (K, P)."""
    wanted = torch.tanh(FEATURES[..., 0])
    return -(population(FEATURES.expand(-1, population.size, -1))[..., 0] - wanted).square()


def test_the_population_improves() -> None:
    population = make()
    before = closeness(population).mean(0)
    seen: list[int] = []
    result = search(
        population,
        closeness,
        SearchSettings(iterations=200, lr=0.05, select_every=50),
        torch.Generator().manual_seed(2),
        lambda iteration, returns: seen.append(iteration),
    )
    after = closeness(population).mean(0)
    assert after.max() > -0.01 > before.max()
    assert seen == list(range(200))
    assert len(result.mean) == len(result.best) == 200
    assert result.returns.shape == (8,)


def test_luck_is_renewed_now_and_then() -> None:
    seeds: list[int] = []

    def objective(population: Population, seed: int) -> Tensor:
        seeds.append(seed)
        return closeness(population)

    settings = SearchSettings(iterations=7, renew_every=3, select_every=0)
    search(make(), objective, settings, torch.Generator().manual_seed(0))
    assert seeds[:3] == [seeds[0]] * 3
    assert seeds[3:6] == [seeds[3]] * 3
    assert len(set(seeds)) == 3


def test_clipping_is_per_policy() -> None:
    gradients = (torch.full((3, 4), 10.0), torch.full((3, 2, 2), 0.0))
    gradients[0][1] = 0.1
    gradients[0][2, 0] = torch.nan
    first, second = clipped(gradients, limit=1.0)
    assert first[0].norm().item() == pytest.approx(1.0)
    torch.testing.assert_close(first[1], gradients[0][1])
    assert first[2, 0] == 0
    assert torch.equal(second, gradients[1])


def test_selection_copies_policies_with_their_optimiser_state() -> None:
    population = make(5)
    optimizer = torch.optim.Adam(population.parameters())
    closeness(population).sum().backward()
    optimizer.step()
    weight = next(population.parameters())
    moments = optimizer.state[weight]["exp_avg"].clone()
    returns = torch.tensor([0.0, 4.0, 1.0, 3.0, 2.0])
    new = select(population, returns, optimizer, spread=0.0)
    assert new.tolist() == [3.0, 4.0, 4.0, 3.0, 2.0] or new.tolist() == [4.0, 4.0, 3.0, 3.0, 2.0]
    for worse in (0, 2):
        better = 1 if new[worse] == 4 else 3
        assert torch.equal(weight[worse], weight[better])
        assert torch.equal(optimizer.state[weight]["exp_avg"][worse], moments[better])
    assert torch.equal(optimizer.state[weight]["exp_avg"][4], moments[4])


def test_islands_keep_to_themselves() -> None:
    population = make(8)
    weight = next(population.parameters())
    before = weight.detach().clone()
    optimizer = torch.optim.Adam(population.parameters())
    new = select(population, torch.arange(8.0), optimizer, spread=0.0, islands=2)
    assert sorted(new[:4].tolist()) == [2.0, 2.0, 3.0, 3.0]
    assert sorted(new[4:].tolist()) == [6.0, 6.0, 7.0, 7.0]
    for number in range(8):
        assert torch.equal(weight[number], before[int(new[number])])


@pytest.mark.parametrize(("islands", "changed"), [(1, []), (2, [0, 1, 2, 3]), (8, [0, 1, 2, 3, 4, 5, 7])])
def test_all_islands_but_the_best_begin_anew(islands: int, changed: list[int]) -> None:
    population = make(8)
    before = [parameter.detach().clone() for parameter in population.parameters()]
    new = begin_anew(population, best=6, islands=islands, generator=torch.Generator().manual_seed(5))
    assert new.tolist() == changed
    weight = next(population.parameters())
    assert [i for i in range(8) if not torch.equal(weight[i], before[0][i])] == changed


def test_no_selection_near_the_end() -> None:
    settings = SearchSettings(iterations=250, select_every=100)
    assert [i for i in range(250) if settings.selects_after(i)] == [99, 199]
    settings = SearchSettings(iterations=230, select_every=100)
    assert [i for i in range(230) if settings.selects_after(i)] == [99]
    assert not any(SearchSettings(select_every=0).selects_after(i) for i in range(300))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("iterations", 0),
        ("lr", 0),
        ("clip", -1),
        ("spread", -0.1),
        ("renew_every", 0),
        ("islands", 0),
        ("scouting", -1),
    ],
)
def test_impossible_settings(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"search\.{key}="):
        SearchSettings(**{key: value})
