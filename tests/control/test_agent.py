from __future__ import annotations

import io
import math
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from concrete_dropout import swap_dropout
from concrete_dropout.control import Agent, AgentSettings, explore
from concrete_dropout.control.policies import Population, RBFPolicies
from concrete_dropout.control.search import SearchSettings
from concrete_dropout.control.worlds import CartPoleWorld, Judgement
from concrete_dropout.data.transitions import TransitionsData
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.scaling import Affine
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.dynamics import DynamicsTask


def trainer() -> pl.Trainer:
    return pl.Trainer(
        max_steps=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def make(kind: str = "concrete", **settings: Any) -> Agent:
    torch.manual_seed(0)
    world = CartPoleWorld()
    inputs, outputs = world.features.number + 1, world.features.size
    network = GaussianHead(MLP(inputs, 2 * outputs, hidden=(32, 32)))
    swap_dropout(network, kind, example_input=torch.zeros(1, inputs))  # type: ignore[arg-type]
    task = DynamicsTask(
        network,
        num_train=1,
        inputs=Affine.identity(inputs),
        targets=Affine.identity(outputs),
        optim=OptimSettings(lr=3e-3),
    )
    data = TransitionsData(world.features, world.state_names, world.action_names, batch_size=25)
    generator = torch.Generator().manual_seed(0)
    population = RBFPolicies(
        world.features.number, world.limits, size=4, units=10, scale=world.feature_scale, generator=generator
    )
    settings = {"search": SearchSettings(iterations=6, select_every=4, scouting=3), "starts": 5} | settings
    explore(world, data, 1, generator)
    return Agent(world, task, data, population, AgentSettings(**settings), trainer, generator)


@pytest.mark.parametrize("kind", ["none", "fixed", "concrete"])
def test_episodes_add_experience(kind: str) -> None:
    agent = make(kind)
    assert agent.data.spec.num_train == 25
    outcome = agent.play()
    assert (outcome.episode, agent.data.spec.num_train, agent.task.num_train) == (1, 50, 25)
    assert outcome.judgement.returns.shape == (5,)
    assert ((outcome.judgement.returns >= 0) & (outcome.judgement.returns <= 25)).all()
    assert 0 <= outcome.model_return <= 25
    agent.play()
    assert agent.task.num_train == 50


def test_scouts_climb_the_mean_model_first() -> None:
    agent = make("fixed", search=SearchSettings(iterations=1, select_every=0, scouting=2))
    seen: list[tuple[int, bool]] = []
    imagine = agent.imagine

    def watched(population: Any, particles: int, reward: Any, seed: int, mean_model: bool = False) -> torch.Tensor:
        seen.append((population.size, mean_model))
        return imagine(population, particles, reward, seed, mean_model)

    agent.imagine = watched  # type: ignore[method-assign]
    agent.play()
    # Two iterations of scouts, their promises; one of the policies, their promises; then the best of both.
    assert seen == [(4, True)] * 3 + [(4, False)] * 2 + [(2, True), (2, False)]
    assert agent.scouts.best is not None


def test_the_best_scouts_take_free_places() -> None:
    agent = make()
    scouts = agent.scouts
    scouts.population.renew(torch.arange(4), torch.Generator().manual_seed(9))
    scouts.lead(agent.population, torch.tensor([3, 0]), promises=torch.tensor([1.0, 4.0, 2.0, 3.0]))
    assert scouts.best == 1
    for place, scout in ((3, 1), (0, 3)):
        for mine, its in zip(agent.population.parameters(), scouts.population.parameters(), strict=True):
            assert torch.equal(mine[place], its[scout])


@pytest.mark.parametrize(("scouts_act", "promised"), [(True, True), (True, False), (False, True)])
def test_who_acts(scouts_act: bool, promised: bool) -> None:
    agent = make(scouts_act=scouts_act)
    agent.scouts.population.renew(torch.arange(4), torch.Generator().manual_seed(9))
    agent.chosen, agent.scouts.best = 2, 1

    def promises(population: Population, mean_model: bool = False) -> torch.Tensor:
        assert population.size == 2
        return torch.tensor([1.0, 2.0] if mean_model and promised else [5.0, 4.0])

    agent.promises = promises  # type: ignore[method-assign]
    mine, its, acts = agent.compare_with_scout(torch.tensor([0.0, 1.0, 3.0, 2.0]))
    assert acts is (scouts_act and promised)
    assert (mine, its) == ((5.0, 4.0) if scouts_act else (3.0, -math.inf))
    features = torch.randn(7, 1, 5)
    expected = agent.scouts.population.single(1)(features)
    torch.testing.assert_close(agent.scouts.best_policy()(features), expected)


@pytest.mark.parametrize(("done", "scout_promise", "chosen"), [(3.0, 1.0, True), (1.0, 3.0, True), (1.0, 1.0, False)])
def test_a_scout_is_chosen_for_what_it_did_or_promises(done: float, scout_promise: float, chosen: bool) -> None:
    agent = make(search=SearchSettings(iterations=1, select_every=0, scouting=2, islands=2))
    judge = agent.world.judge

    def judged(policy: Any, number: int, generator: torch.Generator) -> Judgement:
        judgement = judge(policy, number, generator)
        return Judgement(torch.full_like(judgement.returns, done), judgement.episodes)

    def promises(population: Population, mean_model: bool = False) -> torch.Tensor:
        two = [1.0, 2.0] if mean_model else [2.0, scout_promise]
        return torch.tensor(two if population.size == 2 else [1.5, 1.0, 2.0, 1.2])

    agent.world.judge, agent.promises = judged, promises  # type: ignore[method-assign]
    outcome = agent.play()
    assert outcome.scout_acted
    assert (outcome.acted_return, outcome.scout_chosen) == (done, chosen)
    assert outcome.model_return == (scout_promise if chosen else 2.0)
    # The function draws promise most of policy 2. A scout takes the place of policy 3, the other one on its island.
    assert outcome.chosen == agent.chosen == (3 if chosen else 2)
    assert agent.scouts.best is not None
    scout = agent.scouts.population.part(torch.tensor([agent.scouts.best]))
    pairs = zip(agent.population.parameters(), scout.parameters(), strict=True)
    assert all(torch.equal(mine[3], its[0]) for mine, its in pairs) is chosen


def test_the_chosen_policy_promises_most() -> None:
    agent = make(scouts_act=False)
    outcome = agent.play()
    assert outcome.chosen == agent.chosen
    features = torch.randn(7, 1, 5)
    expected = agent.population(features.expand(-1, 4, -1))[:, agent.chosen]
    torch.testing.assert_close(agent.policy()(features)[:, 0], expected)


def test_the_search_climbs_inside_of_the_model() -> None:
    agent = make(particles=16)
    agent.fit()
    with torch.no_grad():
        before = agent.climb(agent.population, 0).mean()
    from concrete_dropout.control.search import search

    search(agent.population, agent.climb, SearchSettings(iterations=40, lr=0.05), agent.generator)
    with torch.no_grad():
        assert agent.climb(agent.population, 0).mean() > before


def test_moment_matching_and_the_mean_model_are_other_rollouts() -> None:
    returns = []
    for settings in ({}, {"moment_matching": True}, {"mean_model": True}):
        agent = make(**settings)
        agent.fit()
        with torch.no_grad():
            returns.append(agent.climb(agent.population, 0))
    assert not torch.equal(returns[0], returns[1])
    assert not torch.equal(returns[0], returns[2])


def test_a_saved_agent_goes_on_as_if_nothing_had_happened() -> None:
    first = make()
    first.play()
    file = io.BytesIO()
    torch.save((first.state_dict(), first.task.state_dict()), file)
    file.seek(0)
    second = make()
    agent_state, weights = torch.load(file, weights_only=True)
    second.load_state_dict(agent_state)
    second.task.load_state_dict(weights)
    outcomes = []
    for agent in (first, second):
        torch.manual_seed(1)
        outcomes.append(agent.play())
    torch.testing.assert_close(outcomes[0].judgement.returns, outcomes[1].judgement.returns, rtol=0, atol=0)
    assert [o.episode for o in outcomes] == [2, 2]
    assert second.data.spec.num_train == 75


@pytest.mark.parametrize(("key", "value"), [("particles", 1), ("random_episodes", 0), ("episodes", 0), ("starts", 1)])
def test_impossible_settings(key: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"agent\.{key}={value}"):
        AgentSettings(**{key: value})
