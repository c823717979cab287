"""Settings: what they refuse, and the optimisers and schedules they build."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import torch
from torch import nn

from concrete_dropout import dropout_probabilities, kl_divergence
from concrete_dropout.errors import UserError
from concrete_dropout.models import MLP
from concrete_dropout.settings import DropoutSettings, OptimSettings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "concret"),
        ("init_p", 1.5),
        ("init_p", (0.1,)),
        ("init_p", (0.3, 0.1)),
        ("p", 1.0),
        ("temperature", 0.0),
        ("temperature", math.nan),
        ("length_scale", -1.0),
        ("length_scale", math.inf),
        ("length_scale_mode", "fan"),
        ("mask", "hard"),
    ],
)
def test_bad_dropout_settings_are_refused_by_their_key(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^dropout\.{key}=.* must "):
        DropoutSettings(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "adm"),
        ("lr", 0.0),
        ("lr", math.nan),
        ("p_lr", -1.0),
        ("weight_decay", -1e-4),
        ("schedule", "step"),
        ("decay", 0.0),
        ("decay", 1.1),
        ("hold", 1.5),
    ],
)
def test_bad_optimiser_settings_are_refused_by_their_key(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^optim\.{key}=.* must "):
        OptimSettings(**{key: value})


# -- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "p"), [("none", 0.0), ("fixed", 0.3), ("concrete", 0.25)])
def test_apply_swaps_every_dropout(kind: Any, p: float) -> None:
    settings = DropoutSettings(kind, init_p=0.25, p=0.3, length_scale=0.5)
    model = settings.apply(MLP(3, 1, hidden=(4,)), torch.zeros(1, 3))
    assert list(dropout_probabilities(model).values()) == pytest.approx([p, p])
    weights = sum(m.weight.square().sum() for m in model.modules() if isinstance(m, nn.Linear))
    entropy = 7 * (-p * math.log(p) - (1 - p) * math.log1p(-p)) if p else 0.0
    assert kl_divergence(model).item() == pytest.approx(0.125 * weights.item() / (1 - p) - entropy, rel=1e-5)


def test_a_range_of_initial_p_may_be_a_list() -> None:
    settings = DropoutSettings(init_p=[0.2, 0.4])
    assert settings.init_p == (0.2, 0.4)
    model = settings.apply(MLP(3, 1, hidden=(4,) * 5), torch.zeros(1, 3))
    probabilities = dropout_probabilities(model).values()
    assert all(0.2 <= p <= 0.4 for p in probabilities)
    assert len(set(probabilities)) == 6


def test_patterns_may_be_strings_or_lists() -> None:
    model = DropoutSettings("fixed", p=0.3, exclude="layers.0").apply(MLP(3, 1, hidden=(4,)), torch.zeros(1, 3))
    assert list(dropout_probabilities(model)) == ["layers.3"]
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    model = DropoutSettings(place=["0", "2"]).apply(plain, torch.zeros(1, 3))
    assert len(dropout_probabilities(model)) == 2


@pytest.mark.parametrize("wrong", [{"include": "body.*"}, {"place": ["head"]}, {"owners": {"nothing": "layers.1"}}])
def test_settings_that_do_not_fit_the_model_are_the_users_to_mend(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^dropout=concrete does not fit this model: .*layers\."):
        DropoutSettings(**wrong).apply(MLP(3, 1), torch.zeros(1, 3))


# -- optimiser -----------------------------------------------------------------------------------------------------


def swapped() -> MLP:
    return DropoutSettings().apply(MLP(3, 1, hidden=(4,)), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("sgd", torch.optim.SGD),
        ("rmsprop", torch.optim.RMSprop),
    ],
)
def test_p_logits_have_their_own_rate(name: Any, kind: type) -> None:
    model = swapped()
    optimizer, _ = OptimSettings(name, lr=1e-3, p_lr=0.02).build(model, 10)
    assert type(optimizer) is kind
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert groups["weights"]["lr"] == 1e-3
    assert groups["p_logits"]["lr"] == 0.02
    assert len(groups["p_logits"]["params"]) == 2
    before = [p.clone() for p in model.parameters()]
    sum((p**2).sum() for p in model.parameters()).backward()
    optimizer.step()
    assert all((a != b).any() for a, b in zip(before, model.parameters(), strict=True))


def test_weight_decay_spares_the_p_logits() -> None:
    with pytest.warns(UserWarning, match="on top of the prior"):
        optimizer, _ = OptimSettings(weight_decay=0.1).build(swapped(), 10)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]


def test_parameters_instead_of_a_model() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    optimizer, _ = OptimSettings("adam", lr=0.1, weight_decay=0.2).build([tensor], 10)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"]) == (0.1, 0.2)
    optimizer, _ = OptimSettings("adam", lr=0.1).build([{"params": [tensor], "lr": 0.3}], 10)
    assert optimizer.param_groups[0]["lr"] == 0.3


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("hold", [0.0, 0.25, 1.0])
def test_schedules(schedule: Any, hold: float) -> None:
    """Both groups keep their ratio; the rate is full for ``hold`` of the steps and reaches 0 behind the last one."""
    optimizer, scheduler = OptimSettings(lr=0.1, p_lr=0.4, schedule=schedule, hold=hold).build(swapped(), 40)
    rates = []
    for _ in range(41):
        rates.append(optimizer.param_groups[0]["lr"])
        assert optimizer.param_groups[1]["lr"] == pytest.approx(4 * rates[-1])
        optimizer.step()
        scheduler.step()
    if schedule == "constant" or hold == 1:
        assert rates == [0.1] * 41
        return
    progress = [max(0.0, (step / 40 - hold) / (1 - hold)) for step in range(41)]
    shape = (lambda q: 1 - q) if schedule == "linear" else (lambda q: (1 + math.cos(math.pi * q)) / 2)
    assert rates == pytest.approx([0.1 * shape(q) for q in progress], abs=1e-12)
    assert rates[int(40 * hold)] == 0.1
    assert rates[39] > 0
    assert rates[40] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("num_steps", [math.inf, -1])
def test_unlimited_training_keeps_the_rate_and_says_so(num_steps: float, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert OptimSettings(schedule="cosine").factor(num_steps)(10**9) == 1
    assert "optim.schedule=cosine" in caplog.text
    caplog.clear()
    OptimSettings(schedule="constant").factor(num_steps)
    assert not caplog.text


def test_the_scheduler_s_state_is_plain() -> None:
    _, scheduler = OptimSettings().build(swapped(), 10)
    assert scheduler.state_dict()["lr_lambdas"] == [{}, {}]


def test_the_exponential_schedule_goes_down_after_every_epoch() -> None:
    optimizer, scheduler = OptimSettings(lr=0.1, p_lr=0.4, schedule="exponential", decay=0.9).build(swapped(), -1, 3)
    rates = []
    for _ in range(7):
        rates.append(tuple(group["lr"] for group in optimizer.param_groups))
        optimizer.step()
        scheduler.step()
    powers = [0, 0, 0, 1, 1, 1, 2]
    assert rates == [pytest.approx((0.1 * 0.9**k, 0.4 * 0.9**k)) for k in powers]
    assert OptimSettings(schedule="exponential").factor(100)(10**6) == 1  # no epochs, no decay
