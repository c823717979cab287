"""The cart-pole that swings up: its mechanics as a batched torch function, and the reward."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

STATE_NAMES = ("x", "x_dot", "theta", "theta_dot")
UPRIGHT = math.pi


@dataclass(frozen=True)
class CartPole:
    """A cart on a rail with a uniform rod that swings freely below it; the constants are PILCO's.

    States are (..., 4): position of the cart, its velocity, angle of the rod (0 hanging, pi upright), angular velocity.
    Forces are (..., 1), clipped to what the motor can do. All methods work on any leading dimensions, in the dtype of
    the state, with gradients.

    Attributes:
        cart_mass: in kg.
        pole_mass: in kg, evenly along the pole.
        pole_length: in m; 0.6 in some re-implementations.
        friction: between cart and ground, in N / (m / s).
        gravity: in m / s^2.
        max_force: in N.
        time_step: in s, with the force constant meanwhile.
        substeps: Runge-Kutta steps per time step.
        start_std: of each component of the state at the start, around hanging at rest.
        reward_width: distance of the tip from its goal, in m, at which the reward has fallen to exp(-1/2).

    >>> hanging, pushed = torch.zeros(4, dtype=torch.float64), torch.full((1,), 5.0, dtype=torch.float64)
    >>> CartPole().step(hanging, pushed)
    tensor([ 0.0392,  0.7674, -0.1145, -2.1848], dtype=torch.float64)
    """

    cart_mass: float = 0.5
    pole_mass: float = 0.5
    pole_length: float = 0.5
    friction: float = 0.1
    gravity: float = 9.82
    max_force: float = 10.0
    time_step: float = 0.1
    substeps: int = 10
    start_std: float = 0.1
    reward_width: float = 0.25

    def __post_init__(self) -> None:
        may_be_zero = ("friction", "gravity", "start_std")
        for field in fields(self):
            value = getattr(self, field.name)
            if not math.isfinite(value) or value < 0 or (value == 0 and field.name not in may_be_zero):
                least = "0 or more" if field.name in may_be_zero else "above 0"
                raise ValueError(f"env.{field.name}={value} must be {least}")

    def step(self, state: Tensor, force: Tensor) -> Tensor:
        """The state (..., 4) one time step later, under a force (..., 1)."""
        u, h = force[..., 0].clamp(-self.max_force, self.max_force), self.time_step / self.substeps
        for _ in range(self.substeps):
            k1 = self.derivative(state, u)
            k2 = self.derivative(state + h / 2 * k1, u)
            k3 = self.derivative(state + h / 2 * k2, u)
            k4 = self.derivative(state + h * k3, u)
            state = state + h / 6 * (k1 + 2 * (k2 + k3) + k4)
        return state

    def derivative(self, state: Tensor, u: Tensor) -> Tensor:
        """How the state changes per second, (..., 4), under forces u (...).

        From the Lagrangian with the kinetic energy (M + m) x'^2 / 2 + m l x' theta' cos(theta) / 2 + m l^2 theta'^2 / 6
        and the potential energy -m g l cos(theta) / 2.
        """
        _, velocity, angle, spin = state.unbind(-1)
        m, length = self.pole_mass, self.pole_length
        sin, cos = torch.sin(angle), torch.cos(angle)
        push = u - self.friction * velocity + m * sin * (length * spin.square() / 2 + 3 / 4 * self.gravity * cos)
        acceleration = push / (self.cart_mass + m - 3 / 4 * m * cos.square())
        spin_up = -3 / (2 * length) * (acceleration * cos + self.gravity * sin)
        return torch.stack([velocity, acceleration, spin, spin_up], dim=-1)

    def energy(self, state: Tensor) -> Tensor:
        """Kinetic and potential energy (...), in J; 0 for the hanging pole at rest."""
        _, velocity, angle, spin = state.unbind(-1)
        m, length, cos = self.pole_mass, self.pole_length, torch.cos(angle)
        moving = (self.cart_mass + m) * velocity.square() / 2 + m * length * velocity * spin * cos / 2
        return moving + m * length**2 * spin.square() / 6 + m * self.gravity * length * (1 - cos) / 2

    def start(self, number: int, generator: torch.Generator | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Random states (number, 4) around hanging at rest."""
        return self.start_std * torch.randn(number, 4, generator=generator, dtype=dtype)

    def tip(self, state: Tensor) -> Tensor:
        """Where the pole ends, (..., 2): to the right of the rail's origin, and above the rail."""
        x, _, angle, _ = state.unbind(-1)
        return torch.stack([x + self.pole_length * torch.sin(angle), -self.pole_length * torch.cos(angle)], dim=-1)

    def reward(self, state: Tensor, width: float | None = None) -> Tensor:
        """(...), 1 where the tip is straight above the origin and 0 far away: exp(-d^2 / (2 width^2)).

        A larger ``width`` than the reward's own shapes a search, whose gradient vanishes while the pole hangs.
        """
        goal = state.new_tensor([0.0, self.pole_length])
        squared = (self.tip(state) - goal).square().sum(-1)
        return torch.exp(-squared / (2 * (width or self.reward_width) ** 2))
