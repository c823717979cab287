"""Transitions of a controlled system: what a dynamics model learns from, one episode after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from concrete_dropout.data.features import Features
from concrete_dropout.data.regression import RegressionData, Table, Tables

Role = Literal["train", "val"]


@dataclass(frozen=True, eq=False)
class Episode:
    """States (T + 1, S) as they were observed, the start first, and the actions (T, A) between them."""

    states: Tensor
    actions: Tensor

    def __post_init__(self) -> None:
        if self.states.dim() != 2 or self.actions.dim() != 2 or len(self.states) != len(self.actions) + 1:
            raise ValueError(
                f"an episode has states (T + 1, S) and actions (T, A), not {tuple(self.states.shape)} and "
                f"{tuple(self.actions.shape)}"
            )


class TransitionsData(RegressionData):
    """x: features of a state, and the action; y: how much the state changes in a step.

    Episodes are added as they happen. N follows, and so does the standardisation. Validation has whole episodes of
    its own: neighbours in time are too much alike for a random split.

    Args:
        features: of states.
        state_names: S names.
        action_names: A names.
        **loading: of ``RegressionData``.

    >>> data = TransitionsData(Features(2), ("x", "v"), ("u",), batch_size=4)
    >>> data.add(Episode(torch.tensor([[0.0, 1.0], [1.0, 3.0], [4.0, 3.0]]), torch.tensor([[2.0], [0.0]])))
    >>> data.tables.train.x.tolist(), data.tables.train.y.tolist()
    ([[0.0, 1.0, 2.0], [1.0, 3.0, 0.0]], [[1.0, 2.0], [3.0, 0.0]])
    """

    def __init__(
        self, features: Features, state_names: Sequence[str], action_names: Sequence[str], **loading: int
    ) -> None:
        super().__init__(**loading)
        if len(state_names) != features.size:
            raise ValueError(f"{features.size} components of a state, but the names {list(state_names)}")
        self.features = features
        self.state_names, self.action_names = tuple(state_names), tuple(action_names)
        self.episodes: dict[Role, list[Episode]] = {"train": [], "val": []}

    def add(self, episode: Episode, role: Role = "train") -> None:
        """Take up an episode."""
        self.episodes[role].append(episode)
        self._loaded = None

    def state_dict(self) -> dict[str, Any]:
        """All episodes, as tensors: {role: [(states, actions), ...]}."""
        return {role: [(e.states, e.actions) for e in episodes] for role, episodes in self.episodes.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the place of whatever was there."""
        self.episodes = {
            "train": [Episode(*tensors) for tensors in state_dict["train"]],
            "val": [Episode(*tensors) for tensors in state_dict["val"]],
        }
        self._loaded = None

    def load(self) -> Tables:
        """All transitions so far."""
        if not self.episodes["train"]:
            raise ValueError("there is no episode to learn from yet")
        angles = [self.state_names[i] for i in self.features.angles]
        straight = [name for name in self.state_names if name not in angles]
        names = (*straight, *(f"sin {a}" for a in angles), *(f"cos {a}" for a in angles), *self.action_names)
        held_out = self._table(self.episodes["val"]) if self.episodes["val"] else None
        return Tables(self._table(self.episodes["train"]), held_out, None, names, self.state_names)

    def _table(self, episodes: list[Episode]) -> Table:
        x = [inputs_of(self.features, episode.states[:-1], episode.actions) for episode in episodes]
        y = [episode.states.diff(dim=0) for episode in episodes]
        return Table(_rows(x), _rows(y))


def inputs_of(features: Features, states: Tensor, actions: Tensor) -> Tensor:
    """What a dynamics model gets: (..., D + A), in original units."""
    return torch.cat([features(states), actions], dim=-1)


def _rows(parts: list[Tensor]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return torch.cat(parts).double().numpy()
