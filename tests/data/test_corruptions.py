from __future__ import annotations

import pytest
import torch
from torch import Tensor

from concrete_dropout.data import DigitsData, ScenesData, SyntheticData
from concrete_dropout.data.corruptions import PICTURES, ROWS, SEVERITIES, corrupted, rotated
from concrete_dropout.data.shifts import (
    REPLACEMENTS,
    OtherData,
    corrupt_batch,
    corruption_names,
    pixel_space,
    replace_batch,
)
from concrete_dropout.errors import UserError


def inputs(name: str) -> Tensor:
    if name in ROWS:
        return torch.randn(64, 5)
    ramp = torch.linspace(0, 0.6, 16)
    return (ramp.view(1, 1, 16, 1) * ramp.view(1, 1, 1, 16) + 0.3 * torch.rand(8, 3, 16, 16)).clamp(0, 1)


@pytest.mark.parametrize("name", [*PICTURES, *ROWS])
def test_damage_grows_with_severity_and_follows_from_the_seed(name: str) -> None:
    x = inputs(name)
    before = x.clone()
    made = [corrupted(x, name, severity, seed=3) for severity in SEVERITIES]
    damage = [float((after - x).square().mean()) for after in made]
    assert damage[0] > 0
    assert damage == sorted(damage)
    assert len(set(damage)) == len(damage)
    assert torch.equal(x, before)
    assert all(after.shape == x.shape for after in made)
    assert torch.equal(corrupted(x, name, 2, seed=3), made[1])
    if name in PICTURES:
        assert all(float(after.min()) >= 0 and float(after.max()) <= 1 for after in made)
    if name in ("gaussian_noise", "feature_noise", "missing"):
        assert not torch.equal(corrupted(x, name, 2, seed=4), made[1])
        assert not torch.equal(corrupted(x, name, 2, seed=3, number=1), made[1])


def test_a_quarter_turn_moves_corners() -> None:
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 0, 0] = 1
    turned = rotated(x, torch.tensor([torch.pi / 2]))
    assert float(turned.sum()) == pytest.approx(1, abs=1e-4)
    assert float(turned[0, 0, [0, 7], [7, 0]].sum()) == pytest.approx(1, abs=1e-4)


def test_blur_keeps_a_flat_picture() -> None:
    x = torch.full((2, 1, 9, 12), 0.4)
    torch.testing.assert_close(corrupted(x, "blur", 5, seed=0), x)


@pytest.fixture(scope="module")
def digits() -> DigitsData:
    return DigitsData()


@pytest.fixture(scope="module")
def scenes() -> ScenesData:
    return ScenesData(num_train=2, num_val=1, num_test=3, height=32, width=48, crop=32, normalise="standardise")


def test_pixels_there_and_back(digits: DigitsData, scenes: ScenesData) -> None:
    for data in (digits, scenes):
        x, _ = next(iter(data.test_dataloader()))
        space = pixel_space(data)
        assert space is not None
        pixels = space.pixels(x)
        assert 0 <= float(pixels.min()) < float(pixels.max()) <= 1
        torch.testing.assert_close(space.standardised(pixels), x, atol=1e-4, rtol=1e-4)
        brighter = space.pixels(corrupt_batch(data, x, "brightness", 1, seed=0, number=0))
        torch.testing.assert_close(brighter, (pixels + 0.1).clamp(0, 1), atol=1e-4, rtol=1e-4)


def test_labels_of_pixels_survive(digits: DigitsData, scenes: ScenesData) -> None:
    assert "rotation" in corruption_names(digits)
    assert "rotation" not in corruption_names(scenes)
    assert corruption_names(SyntheticData(num_data=5)) == tuple(ROWS)


def test_replacements(digits: DigitsData) -> None:
    x, _ = next(iter(digits.test_dataloader()))
    space = pixel_space(digits)
    assert space is not None
    made = {name: space.pixels(replace_batch(digits, x, name, seed=0, number=0)) for name in REPLACEMENTS}
    torch.testing.assert_close(made["inverted"], 1 - space.pixels(x), atol=1e-5, rtol=0)
    assert float(made["noise"].mean()) == pytest.approx(0.5, abs=0.02)
    assert float((made["rotated"] - space.pixels(x)).abs().mean()) > 0.05


def test_other_data_in_the_shape_of_ours(digits: DigitsData, scenes: ScenesData) -> None:
    x, y = next(OtherData(scenes).batches(digits))
    assert x.shape == (3, 1, 8, 8)
    assert y.tolist() == [-1, -1, -1]
    x, y = next(OtherData(digits).batches(scenes))
    assert x.shape[1:] == (3, 32, 48)
    assert y.shape == (len(x), 32, 48)
    assert len(x) == scenes.eval_batch_size
    few = OtherData(digits, most=5)
    assert (len(few), few.num_batches(scenes), len(list(few.batches(scenes)))) == (5, 5, 5)


def test_rows_keep_their_units() -> None:
    ours, other = SyntheticData(num_data=50, num_test=7), SyntheticData(num_data=20, num_test=9, seed=1)
    x, y = next(OtherData(other).batches(ours))
    restored = ours.spec.inputs.restore(x).numpy()
    assert other.tables.test is not None
    assert restored == pytest.approx(other.tables.test.x, abs=1e-5)
    assert y.shape == (9, 1)


def test_pictures_are_no_rows(digits: DigitsData) -> None:
    with pytest.raises(UserError, match="pictures are no rows"):
        next(OtherData(digits).batches(SyntheticData(num_data=5)))
