from __future__ import annotations

import numpy as np
import pytest

from concrete_dropout.plots.selective import entropy_by_outcome, left_out

ENTRY = {"left_out": [0.0, 0.25, 0.5], "accuracy_kept": [0.6, 0.7, 0.9], "accuracy_kept_epistemic": [0.6, 0.6, 0.8]}


def test_both_orders_stand_between_the_perfect_and_the_random_one() -> None:
    perfect, chance, entropy, information = left_out(ENTRY, "accuracy").data
    # Of 100 predictions 60 are right: without the 25 most uncertain ones at best 60 of 75.
    np.testing.assert_allclose(perfect.y, [0.6, 0.8, 1.0])
    np.testing.assert_allclose(chance.y, [0.6, 0.6, 0.6])
    np.testing.assert_allclose(entropy.y, ENTRY["accuracy_kept"])
    np.testing.assert_allclose(information.y, ENTRY["accuracy_kept_epistemic"])
    assert (entropy.name, information.name) == ("by predictive entropy", "by mutual information")


@pytest.mark.parametrize("score", ["miou", "calibration_rmse"])
def test_other_scores_have_no_perfect_order(score: str) -> None:
    (line,) = left_out({"left_out": [0.0, 0.5], f"{score}_kept": [0.2, 0.1]}, score).data
    np.testing.assert_allclose(line.x, [0.0, 0.5])


def test_right_and_wrong_predictions_are_shares_of_their_own() -> None:
    chance = np.random.default_rng(0)
    table = {"predictive_entropy": chance.uniform(size=500), "correct": (chance.uniform(size=500) > 0.2).astype(float)}
    right, wrong = entropy_by_outcome(table).data
    assert sum(right.y) == pytest.approx(1)
    assert sum(wrong.y) == pytest.approx(1)
    assert right.name == f"right ({int(table['correct'].sum())})"
