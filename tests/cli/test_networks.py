"""Data, model and task that fit together, and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from concrete_dropout.cli.build import build_data, set_out
from concrete_dropout.cli.compose import compose_config
from concrete_dropout.cli.networks import build_task, sizes_of
from concrete_dropout.errors import UserError
from concrete_dropout.tasks import ClassificationTask, RegressionTask, SegmentationTask, Task

CONF = Path(__file__).parents[2] / "conf"
SCENES = ["experiment=scenes", "data.num_train=2", "data.num_val=1", "data.num_test=1", "data.crop=32"]
SMALL = ["model.blocks=[1,1,1]", "model.growth=4", "model.first_filters=8"]


def made(*overrides: str) -> Task:
    cfg = compose_config([*overrides, "trainer=cpu", "logger=none"], CONF)
    set_out(cfg)
    return build_task(cfg, build_data(cfg))


@pytest.mark.parametrize(
    ("overrides", "kind", "num_train", "output"),
    [
        (["model.hidden=[4]"], RegressionTask, 1000, ((2, 1), (2, 1))),
        (["experiment=digits", "model.hidden=[4]"], ClassificationTask, 1258, (2, 10)),
        ([*SCENES, *SMALL], SegmentationTask, 2 * 120 * 160, (2, 11, 32, 32)),
    ],
    ids=["regression", "classification", "segmentation"],
)
def test_sizes_come_from_the_data(overrides: list[str], kind: type, num_train: int, output: tuple) -> None:
    task = made(*overrides)
    assert isinstance(task, kind)
    assert task.num_train == num_train
    cfg = compose_config([*overrides], CONF)
    example = build_data(cfg).example_input
    made_of_two = task.network(torch.cat([example, example]))
    shapes = tuple(made_of_two.shape) if torch.is_tensor(made_of_two) else tuple(tuple(t.shape) for t in made_of_two)
    assert shapes == output


def test_what_the_data_tell_a_model() -> None:
    data = build_data(compose_config(["experiment=digits"], CONF))
    assert sizes_of(data.spec, data.example_input) == {
        "num_inputs": 64,
        "num_outputs": 10,
        "in_channels": 1,
        "num_classes": 10,
        "image_size": (8, 8),
    }


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["experiment=digits", "task=regression"], ["RegressionTask", "DigitsData", "task=classification"]),
        (["data.num_data=10", "task=classification"], ["ClassificationTask", "SyntheticData", "task=regression"]),
        ([*SCENES, "model=mlp"], ["MLP", "(1, 11)", "(1, 11, 32, 32)", "model=fc_densenet56"]),
        (["experiment=digits", "model=fc_densenet56"], ["FCDenseNet", "model=mlp"]),
        (["data.num_data=10", "model=fc_densenet56"], ["FCDenseNet", "SyntheticData", "choose another model"]),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(overrides: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        made(*overrides)
    assert all(word in str(caught.value) for word in words), caught.value


def test_images_do_not_change_the_mode_of_a_network() -> None:
    """The first look at a model's output is in eval mode, which must not last."""
    assert made(*SCENES, *SMALL).network.training
