"""The mask, for any shape, dtype, logit, temperature and seed."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import float_dtypes, moderate_logits, p_logits, seeds, shapes, tensor

from concrete_dropout import ConcreteDropout, concrete_dropout, mc_sampling

temperatures = st.sampled_from([0.05, 0.1, 0.3, 2 / 3, 1.0])


@given(shapes, float_dtypes, p_logits, temperatures, seeds)
def test_values_and_gradients_are_finite_and_have_the_right_shape(
    shape: tuple[int, ...], dtype: torch.dtype, logit: float, temperature: float, seed: int
) -> None:
    torch.manual_seed(seed)
    x = tensor(shape, seed, dtype).requires_grad_()
    p_logit = torch.tensor(logit, dtype=torch.float64 if dtype is torch.float64 else torch.float32, requires_grad=True)
    y = concrete_dropout(x, p_logit, temperature, mask_shape=shape)
    y.float().sum().backward()
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert x.grad is not None
    assert p_logit.grad is not None
    assert (x.grad.shape, p_logit.grad.shape) == (x.shape, p_logit.shape)
    assert all(bool(torch.isfinite(value).all()) for value in (y, x.grad, p_logit.grad))


@given(shapes, moderate_logits, temperatures, seeds)
def test_gradients_are_those_of_the_formula_for_the_mask_that_was_drawn(
    shape: tuple[int, ...], logit: float, temperature: float, seed: int
) -> None:
    """With y = x m: dy/dx = m, and dm/dlogit follows from the z that belongs to m."""
    torch.manual_seed(seed)
    x = tensor(shape, seed).abs().add(0.5).requires_grad_()
    p_logit = torch.tensor(logit, requires_grad=True)
    y = concrete_dropout(x, p_logit, temperature, mask_shape=shape)
    weight = tensor(shape, seed + 1)
    (y * weight).sum().backward()
    assert x.grad is not None
    assert p_logit.grad is not None
    mask = (y / x).detach().double()
    torch.testing.assert_close(x.grad, (mask * weight).float(), rtol=1e-4, atol=1e-5)
    p = torch.sigmoid(p_logit.detach().double())
    z = 1 - mask * (1 - p)
    slope = mask * (p - z / temperature)
    expected = (slope * weight * x.detach()).sum()
    scale = (slope * weight * x.detach()).abs().sum()
    torch.testing.assert_close(p_logit.grad.double(), expected, rtol=1e-3, atol=1e-3 * float(scale) + 1e-6)


@given(shapes, moderate_logits, seeds, st.floats(0.25, 8))
def test_masks_do_not_depend_on_what_they_mask(shape: tuple[int, ...], logit: float, seed: int, factor: float) -> None:
    p_logit, x = torch.tensor(logit), tensor(shape, seed)
    results = []
    for values in (x, factor * x):
        torch.manual_seed(seed)
        results.append(concrete_dropout(values, p_logit, mask_shape=shape))
    torch.testing.assert_close(results[1], factor * results[0])


@given(st.integers(1, 6), st.integers(1, 6), moderate_logits, seeds)
def test_whole_channels_share_a_mask_value(rows: int, channels: int, logit: float, seed: int) -> None:
    torch.manual_seed(seed)
    y = concrete_dropout(torch.ones(rows, channels, 3, 2), torch.tensor(logit), mask_shape=(rows, channels, 1, 1))
    assert torch.equal(y, y[..., :1, :1].expand_as(y))


@given(moderate_logits, seeds)
def test_the_mean_of_a_mask_is_near_one(logit: float, seed: int) -> None:
    """E[1 - z] / (1 - p) is 1 up to the bias of the relaxation, at most 3 % at p < 0.9, and five standard errors."""
    logit = min(logit, 2.0)
    torch.manual_seed(seed)
    mask = concrete_dropout(torch.ones(4000), torch.tensor(logit), mask_shape=(4000,))
    assert abs(float(mask.mean()) - 1) < 0.03 + 5 * float(mask.std()) / 4000**0.5


@given(st.integers(1, 5), st.integers(1, 9), moderate_logits, seeds)
def test_soft_and_hard_masks_of_a_seed_drop_the_same_entries(rows: int, width: int, logit: float, seed: int) -> None:
    layer, x = ConcreteDropout(0.5), torch.ones(rows, width)
    with torch.no_grad():
        layer.p_logit.fill_(logit)
        masks = {}
        for kind in ("concrete", "bernoulli"):
            with mc_sampling(layer, seed=seed, mask=kind):
                masks[kind] = layer(x) * (1 - layer.p)
    clear = (masks["concrete"] - 0.5).abs() > 1e-3  # of entries that are hardly decided, rounding decides
    assert torch.equal(masks["concrete"].round()[clear], masks["bernoulli"].round()[clear])
