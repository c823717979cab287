from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from concrete_dropout.control.cartpole import UPRIGHT, CartPole

STATES = torch.tensor(
    [[0.0, 0.0, 0.0, 0.0], [0.3, -1.0, 2.0, 4.0], [-1.0, 2.0, UPRIGHT, 0.1], [0.1, 0.0, -9.0, -12.0]],
    dtype=torch.float64,
)
FORCES = torch.tensor([[5.0], [-10.0], [0.0], [3.0]], dtype=torch.float64)


def motion(t: float, state: Any, force: float, c: CartPole) -> list[float]:
    """The equations of motion as a linear system for both accelerations, straight from Euler and Lagrange."""
    _, v, angle, spin = state
    coupling = c.pole_mass * c.pole_length * math.cos(angle) / 2
    masses = [[c.cart_mass + c.pole_mass, coupling], [coupling, c.pole_mass * c.pole_length**2 / 3]]
    forces = [
        force - c.friction * v + c.pole_mass * c.pole_length * spin**2 * math.sin(angle) / 2,
        -c.pole_mass * c.gravity * c.pole_length * math.sin(angle) / 2,
    ]
    acceleration, spin_up = np.linalg.solve(masses, forces)
    return [v, acceleration, spin, spin_up]


@pytest.mark.parametrize("system", [CartPole(), CartPole(0.7, 0.2, 0.6, 0.3, 9.81, 20.0, 0.05)], ids=["pilco", "other"])
def test_steps_follow_the_equations_of_motion(system: CartPole) -> None:
    expected = [
        solve_ivp(
            motion, (0, system.time_step), state.tolist(), "DOP853", rtol=1e-12, atol=1e-12, args=(force.item(), system)
        ).y[:, -1]
        for state, force in zip(STATES, FORCES, strict=True)
    ]
    torch.testing.assert_close(system.step(STATES, FORCES), torch.tensor(np.array(expected)), rtol=1e-6, atol=1e-6)


def test_energy_is_kept_without_friction_and_force() -> None:
    system = CartPole(friction=0.0)
    state, before = STATES, system.energy(STATES)
    for _ in range(25):
        state = system.step(state, torch.zeros(4, 1, dtype=torch.float64))
    torch.testing.assert_close(system.energy(state), before, rtol=5e-5, atol=1e-6)
    assert (state - STATES).abs().max() > 1


def test_both_precisions_are_the_same_function() -> None:
    single = CartPole().step(STATES.float(), FORCES.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), CartPole().step(STATES, FORCES), rtol=1e-5, atol=1e-5)


def test_any_leading_dimensions() -> None:
    system = CartPole()
    whole = system.step(STATES.view(2, 2, 4), FORCES.view(2, 2, 1))
    torch.testing.assert_close(whole.view(4, 4), system.step(STATES, FORCES), rtol=0, atol=1e-15)
    torch.testing.assert_close(system.step(STATES[1], FORCES[1]), whole[0, 1], rtol=0, atol=1e-15)
    assert system.reward(STATES.view(2, 2, 4)).shape == (2, 2)


def test_gradients() -> None:
    system = CartPole(substeps=2)
    inputs = STATES.clone().requires_grad_(True), (FORCES * 0.9).requires_grad_(True)
    assert torch.autograd.gradcheck(system.step, inputs)
    assert torch.autograd.gradcheck(system.reward, inputs[:1])


def test_forces_are_limited_by_the_motor() -> None:
    system, far = CartPole(), torch.full((4, 1), 1000.0, dtype=torch.float64)
    torch.testing.assert_close(system.step(STATES, far), system.step(STATES, torch.full_like(far, 10.0)))


def test_reward() -> None:
    system = CartPole()
    upright, hanging = torch.tensor([[0.0, 5.0, UPRIGHT, 5.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert system.reward(upright).item() == pytest.approx(1.0)
    # The tip hangs 1 m, four widths, below its goal.
    assert system.reward(hanging).item() == pytest.approx(math.exp(-8))
    assert system.reward(hanging, width=0.5).item() == pytest.approx(math.exp(-2))
    one_width_aside = torch.tensor([0.25, 0.0, UPRIGHT, 0.0], dtype=torch.float64)
    assert system.reward(one_width_aside).item() == pytest.approx(math.exp(-0.5))
    whole_turn_later = upright + torch.tensor([0.0, 0.0, 2 * math.pi, 0.0])
    assert system.reward(whole_turn_later).item() == pytest.approx(1.0)


def test_starts_hang_near_rest() -> None:
    starts = CartPole(start_std=0.2).start(20_000, torch.Generator().manual_seed(0), torch.float64)
    assert starts.dtype == torch.float64
    torch.testing.assert_close(starts.std(0), torch.full((4,), 0.2, dtype=torch.float64), rtol=0.03, atol=0)
    assert starts.mean(0).abs().max() < 0.01


@pytest.mark.parametrize("constant", ["cart_mass", "pole_length", "time_step", "substeps", "reward_width"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_impossible_constants(constant: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"env\.{constant}=.* must be above 0"):
        CartPole(**{constant: value})
