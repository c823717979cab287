"""Generated road scenes: reproducible, complete, and neither hopeless nor trivial to label."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.data.scene_street import paint_scene
from concrete_dropout.data.scenes import ScenesData
from concrete_dropout.data.segmentation import SegmentationData
from concrete_dropout.errors import UserError


@pytest.fixture(scope="module")
def data() -> ScenesData:
    return ScenesData(num_train=60, num_val=20, num_test=5, seed=1)


def masks(data: SegmentationData, part: str) -> np.ndarray:
    return np.stack([data.mask(part, number) for number in range(data.num_images(part))])


def images(data: SegmentationData, part: str) -> np.ndarray:
    return np.stack([data.image(part, number) for number in range(data.num_images(part))])


def test_sizes_and_names(data):
    assert data.parts == ("train", "val", "test")
    assert data.spec.image_size == (120, 160)
    assert data.spec.num_train == 60 * 120 * 160
    assert data.spec.class_names[-1] == "Bicyclist"
    assert data.name("val", 3) == "val 3"


def test_every_class_is_there_and_some_pixels_have_none(data):
    labels = masks(data, "train")
    shares = np.bincount(labels.reshape(-1), minlength=256) / labels.size
    assert (shares[:11] > 1e-3).all()
    assert 0.001 < shares[VOID] < 0.1
    assert shares[:11].sum() + shares[VOID] == pytest.approx(1)
    # Much of the frequent classes, little of the rare ones, as in CamVid.
    assert set(np.argsort(shares)[-3:]) == {0, 1, 3}
    assert shares[[2, 6, 9, 10]].max() < 0.03


def test_the_street_is_in_perspective(data):
    labels = masks(data, "train")
    heights = {name: np.nonzero(labels == number)[1].mean() for number, name in enumerate(data.spec.class_names)}
    assert heights["Sky"] < heights["Building"] < heights["Car"] < heights["Road"]
    road = (labels == 3).mean(axis=(0, 2))  # share of each row
    assert road[:40].max() == 0
    assert road[70] < road[90] < road[110]


def test_scenes_follow_the_seed(data):
    again, other = (ScenesData(num_train=2, num_val=2, num_test=2, seed=seed) for seed in (1, 2))
    for part in ("train", "val", "test"):
        assert np.array_equal(again.image(part, 1), data.image(part, 1))
        assert np.array_equal(again.mask(part, 1), data.mask(part, 1))
        assert not np.array_equal(other.image(part, 1), data.image(part, 1))
    assert not np.array_equal(data.image("train", 0), data.image("val", 0))
    assert not np.array_equal(data.image("train", 0), data.image("train", 1))


def test_light_changes_from_scene_to_scene(data):
    brightness = images(data, "train").mean(axis=(1, 2, 3))
    assert brightness.std() > 10
    assert (brightness > 40).all()
    assert (brightness < 220).all()


def test_colour_and_place_tell_much_but_not_all(data):
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:120, :160]

    def pixels(part: str, count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = masks(data, part)
        places = np.broadcast_to(np.stack([rows, columns], axis=-1), (*labels.shape, 2))
        features = np.concatenate([images(data, part), places], axis=-1).reshape(-1, 5)
        kept = random.choice(np.flatnonzero(labels.reshape(-1) != VOID), count, replace=False)
        return features[kept], labels.reshape(-1)[kept]

    tree = DecisionTreeClassifier(max_depth=12, random_state=0).fit(*pixels("train", 40_000))
    accuracy = tree.score(*pixels("val", 20_000))
    assert 0.65 < accuracy < 0.9


def test_half_resolution_and_other_sizes():
    half = ScenesData(num_train=1, num_val=0, num_test=0, height=60, width=100, scale=0.5, seed=3)
    assert half.parts == ("train",)
    assert half.spec.image_size == (30, 50)
    whole = paint_scene(np.random.default_rng((3, 0, 0)), 60, 100)
    means = whole[:3].reshape(3, 30, 2, 50, 2).mean(axis=(2, 4)).transpose(1, 2, 0)
    assert np.abs(half.image("train", 0) - means).max() <= 0.5
    assert paint_scene(np.random.default_rng(0), 16, 16).shape == (4, 16, 16)
    assert paint_scene(np.random.default_rng(0), 40, 300).shape == (4, 40, 300)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_train": 0}, r"data\.num_train=0 must be a whole number of at least 1"),
        ({"num_val": -1}, r"data\.num_val=-1"),
        ({"num_test": 1.5}, r"data\.num_test=1\.5"),
        ({"height": 8}, r"data\.height=8 must be a whole number of at least 16"),
        ({"width": 8}, r"data\.width=8"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        ScenesData(**settings)
