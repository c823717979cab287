from __future__ import annotations

import numpy as np

from concrete_dropout.plots.classes import class_iou


def test_the_best_class_is_on_top() -> None:
    without, bars = class_iou(["a", "b", "c"], [0.2, 0.9, None], [0.1, 0.8, 0.7]).data
    assert list(bars.y) == list(without.y) == ["c", "a", "b"]
    np.testing.assert_allclose(bars.x, [np.nan, 0.2, 0.9])
    np.testing.assert_allclose(without.x, [0.7, 0.1, 0.8])
    assert (bars.name, without.name) == ("MC dropout", "without MC")


def test_without_a_comparison_there_is_one_set_of_bars() -> None:
    assert len(class_iou(iter(["a", "b"]), iter([0.2, 0.9])).data) == 1


def test_many_classes_have_room() -> None:
    few, many = (class_iou(map(str, range(n)), [0.5] * n).layout.height for n in (3, 30))
    assert many - few == 27 * 30
