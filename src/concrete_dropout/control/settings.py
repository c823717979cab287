"""What an agent does in an episode, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from concrete_dropout.control.search import SearchSettings


@dataclass(frozen=True)
class AgentSettings:
    """What the agent does in an episode.

    Attributes:
        episodes: with a learned policy, after those with random actions.
        random_episodes: at the start.
        particles: K, function draws that a rollout of the search has.
        scouting_starts: that a rollout of scouts has: in the mean model they are all that differs.
        choosing_particles: function draws, when the best policy is chosen by its true reward.
        starts: that a policy is judged from, in the true world.
        mean_model: roll out through the model without dropout instead of function draws: a control.
        scouts_act: let the best scout act where the mean model promises more of it than of the chosen policy, and
            choose it where it did better than function draws promise of that one.
        moment_matching: draw particles anew from a Gaussian after every step, as Deep PILCO does.
        search: of policies.
    """

    episodes: int = 15
    random_episodes: int = 1
    particles: int = 8
    scouting_starts: int = 4
    choosing_particles: int = 32
    starts: int = 50
    mean_model: bool = False
    scouts_act: bool = True
    moment_matching: bool = False
    search: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        least = {"episodes": 1, "random_episodes": 1, "particles": 2, "scouting_starts": 1, "choosing_particles": 2}
        least |= {"starts": 2}
        for key, number in least.items():
            if getattr(self, key) < number:
                raise ValueError(f"agent.{key}={getattr(self, key)} must be at least {number}")
