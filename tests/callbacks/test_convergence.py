from __future__ import annotations

import math
import random

import numpy as np
import pytest
import pytorch_lightning as pl

from concrete_dropout.callbacks.convergence import Criterion, Pace, convergence, trend
from concrete_dropout.callbacks.pace import logit_pace
from concrete_dropout.data import SyntheticData
from concrete_dropout.models import MLP, GaussianHead
from concrete_dropout.settings import DropoutSettings, OptimSettings
from concrete_dropout.tasks import RegressionTask

STEPS = list(range(0, 1001, 10))


def test_a_settled_p_has_converged() -> None:
    result = convergence(STEPS, [0.3 + 0.2 * math.exp(-step / 100) for step in STEPS])
    assert result.converged
    assert result.initial == pytest.approx(0.5)
    assert result.final == pytest.approx(0.3, abs=1e-4)
    assert result.saturated is None


def test_a_moving_p_has_not() -> None:
    result = convergence(STEPS, [0.1 + 0.3 * step / 1000 for step in STEPS])
    assert not result.converged
    assert result.change_last_fifth == pytest.approx(0.06)
    assert result.trend_per_1000_steps == pytest.approx(0.3)


def test_only_the_last_fifth_counts() -> None:
    assert convergence(STEPS, [0.5 if step < 700 else 0.1 for step in STEPS]).converged
    assert not convergence(STEPS, [0.1 if step < 800 else 0.1 + (step - 800) / 4000 for step in STEPS]).converged


def test_trend_is_numpys_least_squares() -> None:
    rng = np.random.default_rng(0)
    ps = rng.uniform(0, 1, len(STEPS))
    inside = np.array(STEPS) >= 800
    expected = np.polyfit(np.array(STEPS)[inside], ps[inside], 1)[0]
    assert trend(STEPS, ps.tolist()) == pytest.approx(expected)


def test_noise_around_a_settled_p_is_no_trend() -> None:
    random.seed(0)
    assert convergence(STEPS, [0.3 + random.gauss(0, 0.01) for _ in STEPS]).converged


@pytest.mark.parametrize(("p", "change", "converged"), [(0.4, 0.019, True), (0.4, 0.021, False), (0.02, 0.015, False)])
def test_small_p_are_held_to_a_part_of_themselves(p: float, change: float, converged: bool) -> None:
    ps = [p - change * (1000 - step) / 200 for step in STEPS]
    assert convergence(STEPS, ps).converged is converged


def test_a_vanishing_p_has_converged_and_is_saturated() -> None:
    result = convergence(STEPS, [1e-4 * (2 - step / 1000) for step in STEPS])
    assert (result.converged, result.saturated) == (True, "low")
    assert convergence(STEPS, [0.7] * len(STEPS)).saturated == "high"


def test_a_fixed_p_is_what_was_chosen() -> None:
    result = convergence(STEPS, [0.7] * len(STEPS), learned=False)
    assert (result.converged, result.saturated, result.change_last_fifth) == (True, None, 0.0)


def test_few_rows() -> None:
    assert convergence([0, 100], [0.1, 0.2]).change_last_fifth == pytest.approx(0.02)
    assert trend([0, 50, 100], [0.1, 0.2, 0.3]) == pytest.approx(0.002)  # the last fifth holds one row only
    single = convergence([0], [0.1])
    assert (single.converged, single.change_last_fifth) == (False, None)


def test_a_history_that_starts_late() -> None:
    result = convergence([500, 750, 1000], [0.2, 0.2, 0.2], initial=0.5)
    assert (result.initial, result.final, result.converged) == (0.5, 0.2, True)


def test_nan_is_not_converged() -> None:
    assert not convergence(STEPS, [math.nan] * len(STEPS)).converged


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="there must be as many"):
        convergence([1, 2], [0.1])
    with pytest.raises(ValueError, match="at least one"):
        convergence([], [])
    with pytest.raises(ValueError, match="tolerance=0"):
        Criterion(tolerance=0)
    with pytest.raises(ValueError, match=r"low=0.7 and high=0.6"):
        Criterion(low=0.7)


def test_the_criterion_is_put_in_words() -> None:
    words = str(Criterion(tolerance=0.03, low=0.002))
    assert all(part in words for part in ("last fifth", "at most 0.03", "20% of p", "below 0.002", "above 0.6"))


def climb(p_lr: float, num_steps: int, start: float = 0.1, share: float = 1.0) -> tuple[list[int], list[float], Pace]:
    """p whose logit goes ``share`` of the way that its learning rate allows, and the pace of that rate."""
    steps = list(range(0, num_steps + 1, 10))
    origin = math.log(start / (1 - start))
    ps = [1 / (1 + math.exp(-origin - share * p_lr * step)) for step in steps]
    window = num_steps // 5
    return steps, ps, Pace(p_lr * window, p_lr * num_steps, window)


def test_a_p_that_crept_one_way_has_not_converged() -> None:
    """600 steps of 1e-3: p has hardly moved, because it could not."""
    steps, ps, pace = climb(1e-3, 600)
    judged = convergence(steps, ps, pace=pace)
    assert judged.drift == pytest.approx(1.0, rel=1e-6)
    assert convergence(steps, ps).converged
    assert not judged.converged


def test_a_slow_p_that_wanders_has_converged() -> None:
    steps, ps, pace = climb(1e-3, 600, share=0.05)
    judged = convergence(steps, ps, pace=pace)
    assert judged.drift == pytest.approx(0.05, rel=1e-6)
    assert judged.converged


def test_a_p_that_falls_to_nothing_has_converged() -> None:
    """Its logit goes on for ever, but 0.0005 and 0 are the same p."""
    steps, ps, pace = climb(1e-3, 600, start=5e-4, share=-1.0)
    judged = convergence(steps, ps, pace=pace)
    assert (judged.converged, judged.saturated) == (True, "low")


def test_in_a_short_window_a_random_walk_may_look_one_way() -> None:
    assert Pace(1.0, 5.0, 400).one_way == 0.3
    assert Pace(1.0, 5.0, 25).one_way == pytest.approx(0.6)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_the_pace_is_read_from_the_optimiser(schedule: str) -> None:
    data = SyntheticData(num_data=64, num_val=0, num_test=0, batch_size=16, min_steps_per_epoch=20)
    network = DropoutSettings().apply(GaussianHead(MLP(1, 2, (8,))), data.example_input)
    settings = OptimSettings(lr=1e-3, p_lr=1e-2, schedule=schedule, hold=0.5)
    spec = data.spec
    task = RegressionTask(network, num_train=64, inputs=spec.inputs, targets=spec.targets, optim=settings)
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=20, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(task, datamodule=data)
    pace = logit_pace(trainer)
    rates = [1e-2 * settings.factor(20)(step) for step in range(16, 20)]
    assert pace is not None
    assert (pace.window, pace.whole, pace.steps) == (pytest.approx(sum(rates)), pytest.approx(0.2), 4)
