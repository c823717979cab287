"""The paper's line with noise, against its closed-form moments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from concrete_dropout.data import SyntheticData
from concrete_dropout.errors import UserError


def test_moments():
    N = 100_000
    train = SyntheticData(num_data=N, seed=3).tables.train
    x, y = train.x[:, 0], train.y[:, 0]
    error = 4 / math.sqrt(N)  # four standard errors of a mean of unit-variance draws
    assert x.mean() == pytest.approx(0, abs=error)
    assert x.std() == pytest.approx(1, abs=error)
    assert y.mean() == pytest.approx(8, abs=math.sqrt(5) * error)  # Var y = 2^2 + 1
    noise = y - 2 * x - 8
    assert noise.std() == pytest.approx(1, abs=error)
    assert np.mean(noise * x) == pytest.approx(0, abs=error)
    # The third and fourth moments of a Gaussian, whose draws have variances 15 and 96.
    assert np.mean(noise**3) == pytest.approx(0, abs=math.sqrt(15) * error)
    assert np.mean(noise**4) == pytest.approx(3, abs=math.sqrt(96) * error)


def test_other_lines():
    train = SyntheticData(num_data=50, slope=-3, intercept=1, noise=0).tables.train
    assert train.y == pytest.approx(1 - 3 * train.x)


def test_the_size_of_one_part_changes_no_other():
    small, large = SyntheticData(num_data=10, num_val=4).tables, SyntheticData(num_data=500, num_val=9).tables
    assert np.array_equal(small.test.x, large.test.x)
    assert np.array_equal(small.test.y, large.test.y)
    assert np.array_equal(small.train.y, large.train.y[:10])
    assert np.array_equal(small.val.y, large.val.y[:4])


def test_parts_and_seeds_are_independent():
    draws = [
        part.x[:, 0] for seed in (0, 1) for part in SyntheticData(num_data=1000, seed=seed).tables.parts().values()
    ]
    correlations = np.corrcoef(draws)[np.triu_indices(6, k=1)]
    assert np.abs(correlations).max() < 4.5 / math.sqrt(1000)


@pytest.mark.parametrize("num_data", [1, 2, 10, 10_000])
def test_any_number_of_data(num_data):
    data = SyntheticData(num_data=num_data, batch_size=8, seed=2)
    assert data.spec.num_train == num_data == len(data.tables.train)
    assert all(len(x) == 8 for x, _ in data.train_dataloader())


def test_one_row_keeps_its_unit():
    data = SyntheticData(num_data=1)
    x, y = data.tensors("train")
    assert (x.item(), y.item()) == (0, 0)
    assert (data.spec.inputs.std.item(), data.spec.targets.std.item()) == (1, 1)
    assert data.tensors("test")[0].isfinite().all()


def test_parts_can_be_left_out():
    tables = SyntheticData(num_val=0, num_test=0).tables
    assert tables.val is None
    assert tables.test is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_data": 0}, r"data\.num_data=0 must be a whole number of at least 1"),
        ({"num_data": 10.5}, r"data\.num_data=10\.5"),
        ({"num_val": -1}, r"data\.num_val=-1 must be a whole number of at least 0"),
        ({"noise": -1}, r"data\.noise=-1 must be a finite number of at least 0"),
        ({"slope": math.inf}, r"data\.slope=inf must be a finite number"),
        ({"intercept": "8"}, r"data\.intercept='8'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        SyntheticData(**settings)
