from __future__ import annotations

import math

import pytest
import torch

from concrete_dropout.data.features import Features
from concrete_dropout.data.transitions import Episode, TransitionsData


def episode(steps: int = 25, seed: int = 0) -> Episode:
    generator = torch.Generator().manual_seed(seed)
    return Episode(torch.randn(steps + 1, 4, generator=generator), torch.randn(steps, 1, generator=generator))


def data() -> TransitionsData:
    return TransitionsData(Features(4, (2,)), ("x", "v", "angle", "spin"), ("u",), batch_size=10)


def test_rows_are_transitions() -> None:
    transitions, one = data(), episode(3)
    transitions.add(one)
    tables = transitions.tables
    assert tables.feature_names == ("x", "v", "spin", "sin angle", "cos angle", "u")
    assert tables.target_names == ("x", "v", "angle", "spin")
    state, action = one.states[1].double(), one.actions[1].double()
    expected = [state[0], state[1], state[3], math.sin(state[2]), math.cos(state[2]), action[0]]
    assert tables.train.x[1].tolist() == pytest.approx([float(value) for value in expected], rel=1e-6)
    assert tables.train.y[1].tolist() == pytest.approx((one.states[2] - one.states[1]).tolist())


def test_n_and_scales_follow_the_episodes() -> None:
    transitions = data()
    transitions.add(episode(25, 0))
    first = transitions.spec
    transitions.add(episode(10, 1))
    transitions.add(episode(25, 2), "val")
    second = transitions.spec
    assert (first.num_train, second.num_train) == (25, 35)
    assert not torch.equal(first.targets.std, second.targets.std)
    assert transitions.parts == ("train", "val")
    # Not one row of a held-out episode is among those of training.
    trained = {tuple(row) for row in transitions.tables.train.x.tolist()}
    assert trained.isdisjoint({tuple(row) for row in transitions.tables.val.x.tolist()})  # type: ignore[union-attr]


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"states \(T \+ 1, S\)"):
        Episode(torch.zeros(5, 4), torch.zeros(5, 1))
    with pytest.raises(ValueError, match="4 components"):
        TransitionsData(Features(4), ("x",), ("u",))
    with pytest.raises(ValueError, match="no episode"):
        _ = data().spec
