"""Batch statistics in evaluation: the same numbers as in training mode, and nothing left behind."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout import mc_sampling
from concrete_dropout.models.batch_norm import batch_statistics


def network() -> nn.Sequential:
    """With statistics that are not those of any batch."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.5), nn.Conv2d(4, 2, 1)
    )
    for _ in range(3):
        model(torch.randn(2, 3, 8, 8) * 2 + 1)
    return model.eval()


def normalised(x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    return (x - mean) / (var + norm.eps).sqrt()


def test_the_statistics_are_those_of_the_batch() -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        features = model[0](x)
        with batch_statistics(model):
            inside = model[1](features)
        outside = model[1](features)
    torch.testing.assert_close(inside, normalised(features, model[1]), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(outside, inside, atol=0.1)


def test_nothing_is_left_behind() -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    before = copy.deepcopy(model.state_dict())
    buffers = [id(buffer) for buffer in model.buffers()]
    expected = model(x)
    with batch_statistics(model):
        model(x)
    with pytest.raises(RuntimeError, match="stop"), batch_statistics(model):
        raise RuntimeError("stop")
    assert [id(buffer) for buffer in model.buffers()] == buffers
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())
    assert torch.equal(model(x), expected)


def test_only_dropout_is_random_while_sampling() -> None:
    """Sampling puts everything into eval mode, in which batch statistics hold as well."""
    model, x = network(), torch.randn(1, 3, 8, 8)
    seen: list[Tensor] = []
    model[1].register_forward_hook(lambda module, args, out: seen.append(out))
    with torch.no_grad(), batch_statistics(model), mc_sampling(model, seed=0):
        first, second = model(x), model(x)
    assert not torch.equal(first, second)
    assert torch.equal(seen[0], seen[1])
    torch.testing.assert_close(seen[0], normalised(model[0](x), model[1]).detach(), rtol=1e-4, atol=1e-5)


def test_contexts_may_be_nested_and_models_need_no_norm() -> None:
    model, x = network(), torch.randn(2, 3, 8, 8)
    with batch_statistics(model):
        once = model(x)
        with batch_statistics(model):
            assert torch.equal(model(x), once)
        assert torch.equal(model(x), once)
    assert model[1].running_mean is not None
    plain = nn.Linear(2, 1)
    with batch_statistics(plain):
        plain(torch.zeros(1, 2))


def test_layers_without_running_statistics_stay_so() -> None:
    norm = nn.BatchNorm1d(2, track_running_stats=False).eval()
    with batch_statistics(norm):
        norm(torch.randn(4, 2))
    assert norm.running_mean is None


def test_variants_of_other_packages_understand_it() -> None:
    timm_layers = pytest.importorskip("timm.layers")
    norm = timm_layers.BatchNormAct2d(4).eval()
    norm.running_mean.fill_(3.0)
    x = torch.randn(2, 4, 5, 5)
    with batch_statistics(norm), torch.no_grad():
        torch.testing.assert_close(norm(x), normalised(x, norm).relu(), rtol=1e-4, atol=1e-5)
    assert (norm.running_mean == 3).all()
