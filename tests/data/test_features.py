from __future__ import annotations

import math

import pytest
import torch

from concrete_dropout.data.features import Features

FEATURES = Features(size=4, angles=(2,))


def test_angles_become_sine_and_cosine() -> None:
    states = torch.tensor([[1.0, 2.0, 0.5, 3.0], [1.0, 2.0, 0.5 + 2 * math.pi, 3.0]])
    features = FEATURES(states)
    assert features.shape == (2, FEATURES.number)
    torch.testing.assert_close(features[0], torch.tensor([1.0, 2.0, 3.0, math.sin(0.5), math.cos(0.5)]))
    torch.testing.assert_close(features[0], features[1])
    assert torch.equal(Features(4)(states), states)
    with pytest.raises(ValueError, match=r"env\.angles=\[4\]"):
        Features(4, (4,))
