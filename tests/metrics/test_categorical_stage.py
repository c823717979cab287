"""All metrics of a stage together: names, plain numbers, void, and predictions with and without masks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sklearn.metrics import accuracy_score, jaccard_score
from torch import Tensor
from torchmetrics import Metric

from concrete_dropout.metrics import LEFT_OUT, CategoricalMetrics

from .predictions import VOID, add_states, prediction_of, random_logits, random_targets

SCORES = "nll log_likelihood accuracy brier ece mce calibration_rmse".split()
ENTROPIES = "predictive_entropy expected_entropy mutual_information".split()
NAMES = ("road", "sky", "tree")
CLASSIFIED = {*SCORES, *ENTROPIES}
SEGMENTED = {*CLASSIFIED, "miou", "class_accuracy", *(f"iou/{name}" for name in NAMES)}
CURVES = {"confidence", "frequency", "share", "left_out"}
KEPT = {f"{name}_{kept}" for name in ("accuracy", "calibration_rmse") for kept in ("kept", "kept_epistemic")}
MIOU_KEPT = {"miou_kept", "miou_kept_epistemic"}


def step(logits: Tensor, targets: Tensor, deterministic: Tensor | None = None) -> dict[str, Any]:
    other = None if deterministic is None else prediction_of(deterministic, targets)
    return {"prediction": prediction_of(logits, targets), "deterministic": other, "targets": targets}


def images(rows: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    return random_logits(5, rows, 3, 6, 7, seed=seed), random_targets(3, rows, 6, 7, seed=seed + 1)


def result_of(metrics: CategoricalMetrics, *steps: dict[str, Any]) -> Any:
    for outputs in steps:
        metrics.update(outputs)
    return metrics.compute()


def test_a_classification_gives_plain_numbers() -> None:
    y = random_targets(3, 50, void=0)
    result = result_of(CategoricalMetrics(3), step(random_logits(4, 50, 3), y))
    assert set(result.scalars) == CLASSIFIED
    assert set(result.curves) == CURVES | KEPT
    assert all(type(value) is float for value in result.scalars.values())
    assert result.curves["left_out"] == list(LEFT_OUT)
    assert all(len(result.curves[name]) == len(LEFT_OUT) for name in KEPT)
    assert result.num_points == 50


def test_a_result_can_be_asked_for_again() -> None:
    metrics, (logits, y) = CategoricalMetrics(3, NAMES), images()
    assert result_of(metrics, step(logits, y, logits[:1])) == metrics.compute()


def test_a_segmentation_has_classes_too() -> None:
    logits, y = images()
    result = result_of(CategoricalMetrics(3, NAMES), step(logits, y))
    assert set(result.scalars) == SEGMENTED
    assert set(result.curves) == CURVES | KEPT | MIOU_KEPT
    labelled = y != VOID
    predicted = logits.softmax(2).mean(0).argmax(1)
    assert result.num_points == labelled.sum().item()
    assert result.scalars["accuracy"] == accuracy_score(y[labelled], predicted[labelled])
    iou = jaccard_score(y[labelled], predicted[labelled], average=None)
    assert [result.scalars[f"iou/{name}"] for name in NAMES] == pytest.approx(iou.tolist())
    assert result.scalars["miou"] == pytest.approx(iou.mean())
    assert result.curves["miou_kept"][0] == pytest.approx(iou.mean())


def test_a_pass_without_masks_is_reported_beside() -> None:
    """With the suffix it has what a stage of its own would have, but for the entropies of samples."""
    logits, y = images()
    single = random_logits(1, 4, 3, 6, 7, seed=9)
    both = result_of(CategoricalMetrics(3, NAMES), step(logits, y, single))
    sampled = result_of(CategoricalMetrics(3, NAMES), step(logits, y))
    alone = result_of(CategoricalMetrics(3, NAMES), step(single, y))
    expected = {
        f"{k}_no_mc": v for k, v in alone.scalars.items() if k not in ("expected_entropy", "mutual_information")
    }
    assert both.scalars == {**sampled.scalars, **expected}
    for name in ("confidence", "frequency", "share"):
        assert both.curves[f"{name}_no_mc"] == alone.curves[name]
        assert both.curves[name] == sampled.curves[name]


def test_classes_that_never_occur_are_nan_and_left_out_of_the_mean() -> None:
    y = torch.zeros(1, 2, 2).long()
    logits = torch.zeros(1, 1, 3, 2, 2)
    logits[:, :, 0] = 5
    scalars = result_of(CategoricalMetrics(3, NAMES), step(logits, y)).scalars
    assert math.isnan(scalars["iou/sky"])
    assert scalars["iou/road"] == scalars["miou"] == scalars["class_accuracy"] == 1


def test_batches_and_processes_do_not_matter() -> None:
    logits, y = images(rows=9)
    whole = result_of(CategoricalMetrics(3, NAMES), step(logits, y, logits[:1]))
    parts = [step(logits[:, rows], y[rows], logits[:1, rows]) for rows in torch.arange(9).split(2)]
    split = result_of(CategoricalMetrics(3, NAMES), *parts)
    first, second = CategoricalMetrics(3, NAMES), CategoricalMetrics(3, NAMES)
    for outputs in parts[:2]:
        first.update(outputs)
    for outputs in parts[2:]:
        second.update(outputs)
    pairs = zip(first.modules(), second.modules(), strict=True)
    for one, other in pairs:
        if isinstance(one, Metric):
            add_states(one, other)
    for result in (split, first.compute()):
        assert result.scalars == pytest.approx(whole.scalars, rel=1e-6)
        assert result.num_points == whole.num_points
        for name, values in whole.curves.items():
            assert result.curves[name] == pytest.approx(values, rel=1e-6)


def test_states_have_a_fixed_size_and_are_summed() -> None:
    metrics = CategoricalMetrics(11, [str(index) for index in range(11)])
    states = [
        (getattr(metric, name), metric._reductions[name])
        for metric in metrics.modules()
        if isinstance(metric, Metric)
        for name in metric._defaults
    ]
    assert {state.dtype for state, _ in states} == {torch.int64, torch.float64}
    assert all(reduction is not None and "sum" in reduction.__name__ for _, reduction in states)
    assert sum(state.nbytes for state, _ in states) < 1_000_000
    assert not metrics.state_dict()


def test_reset_forgets_everything() -> None:
    metrics, (logits, y) = CategoricalMetrics(3, NAMES), images()
    alone = result_of(metrics, step(logits, y))
    metrics.update(step(*images(seed=5), deterministic=images(seed=6)[0]))
    metrics.reset()
    assert result_of(metrics, step(logits, y)) == alone


def test_void_alone_leaves_nothing_to_say() -> None:
    y = torch.full((1, 4, 5), VOID)
    result = result_of(CategoricalMetrics(3, NAMES), step(random_logits(2, 1, 3, 4, 5), y))
    assert result.num_points == 0
    assert all(math.isnan(value) for value in result.scalars.values())
    assert result.curves["confidence"] == []
