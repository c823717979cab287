"""The cart-pole as a gymnasium environment, ``CartPoleSwingUp-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch

from concrete_dropout.control.cartpole import CartPole
from concrete_dropout.control.drawing import draw_cartpole

ENV_ID = "CartPoleSwingUp-v0"
STEPS = 25

Floats = npt.NDArray[np.float64]


class CartPoleSwingUp(gym.Env[Floats, Floats]):
    """Observations are states (4,), actions forces (1,) in N; the reward is that of the state after the action.

    An episode never terminates: swinging up takes the time that it takes. ``gymnasium.make`` truncates it.

    Args:
        render_mode: "rgb_array" for frames.
        observation_noise: standard deviation of what is added to every component that is observed; the state itself
            and the reward are exact.
        constants: of ``CartPole``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # as gymnasium has it

    def __init__(self, render_mode: str | None = None, observation_noise: float = 0.0, **constants: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r} must be None or 'rgb_array'")
        if observation_noise < 0:
            raise ValueError(f"env.observation_noise={observation_noise} must be 0 or more")
        self.system = CartPole(**constants)
        self.render_mode, self.observation_noise = render_mode, observation_noise
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
        force = self.system.max_force
        self.action_space = gym.spaces.Box(-force, force, (1,), np.float64)
        self.state = np.zeros(4)
        self._force = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin near hanging at rest, or at ``options={"state": ...}``."""
        super().reset(seed=seed)
        given = (options or {}).get("state")
        state = self.np_random.normal(0, self.system.start_std, 4) if given is None else given
        self.state, self._force = np.asarray(state, np.float64).reshape(4), 0.0
        return self._observed(), {"state": self.state.copy()}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Apply a force for one time step."""
        force = torch.as_tensor(np.asarray(action, np.float64).reshape(1))
        state = self.system.step(torch.from_numpy(self.state), force)
        self.state, self._force = state.numpy(), float(force)
        return self._observed(), float(self.system.reward(state)), False, False, {"state": self.state.copy()}

    def render(self) -> npt.NDArray[np.uint8] | None:
        """A frame (H, W, 3) of the present state."""
        return None if self.render_mode is None else draw_cartpole(self.system, self.state, self._force)

    def _observed(self) -> Floats:
        noise = self.np_random.normal(0, self.observation_noise, 4) if self.observation_noise else 0.0
        return self.state + noise


def register() -> None:
    """Make ``gymnasium.make("CartPoleSwingUp-v0")`` work; once is enough, and twice does no harm."""
    if ENV_ID not in gym.registry:
        gym.register(ENV_ID, f"{__name__}:{CartPoleSwingUp.__name__}", max_episode_steps=STEPS)
