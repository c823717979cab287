from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.tasks.labelled import classification, clouds

from concrete_dropout.evaluation import Member, Plan, Subject, planned_units


def subject(kind: str = "concrete", members: int = 1) -> Subject:
    data: Any = clouds()
    tasks = []
    for seed in range(members):
        torch.manual_seed(seed)
        tasks.append(classification(data, kind))
    return Subject("run", tuple(Member(task, data, "run") for task in tasks))


def keys(plan: Plan, kind: str = "concrete") -> list[tuple[Any, ...]]:
    return [(u.part, u.mask, u.repeat, u.counts, u.shift, u.severity) for u in planned_units(plan, [subject(kind)])]


def test_one_pass_for_all_numbers_of_samples() -> None:
    plan = Plan((0, 5, 20), masks=("concrete", "bernoulli"), repeats=2)
    assert keys(plan) == [
        ("test", None, 0, (0,), "", 0),
        *(("test", mask, repeat, (5, 20), "", 0) for mask in ("concrete", "bernoulli") for repeat in (0, 1)),
    ]


def test_kinds_of_dropout_that_leave_no_choice() -> None:
    plan = Plan((0, 5), masks=("concrete", "bernoulli"), repeats=2)
    assert keys(plan, "none") == [("test", None, 0, (0,), "", 0)]
    assert [key[1:3] for key in keys(plan, "fixed")] == [(None, 0), ("bernoulli", 0), ("bernoulli", 1)]


def test_a_temperature_is_fitted_before_it_is_used_and_clean_data_come_first() -> None:
    plan = Plan(
        (0, 5), temperature_scaling=True, corruptions=("blur",), severities=(1, 2), ood=("noise",), shift_samples=5
    )
    found = [(part, mask, shift, severity) for part, mask, _, _, shift, severity in keys(plan)]
    assert found == [
        *(("val", mask, "", 0) for mask in (None, "concrete")),
        *(("test", mask, "", 0) for mask in (None, "concrete")),
        *(("test", mask, "blur", severity) for severity in (1, 2) for mask in (None, "concrete")),
        *(("test", mask, "noise", 0) for mask in (None, "concrete")),
    ]


@pytest.mark.parametrize("kind", ["concrete", "none"])
def test_members_of_an_ensemble_share_the_samples(kind: str) -> None:
    both = subject(kind, members=2)
    assert [both.shares((0, 7), number) for number in (0, 1)] == [[0, 4], [0, 3]]
    batch = (torch.randn(6, 2), torch.arange(6) % 3)
    made = both.evaluate_at([batch, batch], (0, 7), "concrete", seed=3)
    single = [member.task.evaluate(batch, 0, seed=3)["prediction"].probabilities for member in both.members]
    torch.testing.assert_close(made[0]["prediction"].probabilities, (single[0] + single[1]) / 2)
    alone = both.members[0].task.evaluate(batch, 4, seed=3)["prediction"].probabilities
    rest = 7 * made[7]["prediction"].probabilities - 4 * alone
    torch.testing.assert_close(rest.sum(1), torch.full((6,), 3.0), atol=1e-4, rtol=0)
    assert both.members[0].task.mask == "concrete"
