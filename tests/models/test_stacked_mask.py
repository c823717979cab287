"""Masks of a stack against the scalar layer, their own formula, and quadrature."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from concrete_dropout.dropout import native
from concrete_dropout.dropout.functional import concrete_dropout
from concrete_dropout.dropout.kernels import BLOCK
from concrete_dropout.models.stacked_mask import stacked_concrete_dropout

pytestmark = pytest.mark.usefixtures("code")

# Whole; several replicas to a block; several blocks to a replica.
SHAPES = [(4, 16, 5), (5, 64, 700), (2, 400, 500)]


def away_from_zero(*shape: int) -> Tensor:
    x = torch.randn(shape)
    return torch.where(x.abs() < 0.1, 0.1, x)


def test_shapes_of_these_tests_take_all_ways_through_the_blocks() -> None:
    sizes = [(rows * width, replicas * rows * width) for replicas, rows, width in SHAPES]
    assert [whole <= BLOCK for _, whole in sizes] == [True, False, False]
    assert [one <= BLOCK for one, _ in sizes] == [True, True, False]


def test_one_p_for_all_gives_the_masks_of_the_ordinary_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_library", None)  # the compiled code of the ordinary layer has other noise
    x = away_from_zero(4, 16, 5)
    torch.manual_seed(3)
    expected = concrete_dropout(x, torch.tensor(-0.5))
    torch.manual_seed(3)
    y = stacked_concrete_dropout(x, torch.full((4,), -0.5))
    torch.testing.assert_close(y / x, expected / x, rtol=0, atol=3e-3)  # z is rounded to float16


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("temperature", [0.1, 0.5, 0.3])
def test_gradients_are_those_of_the_mask_that_was_applied(shape: tuple[int, ...], temperature: float) -> None:
    x = away_from_zero(*shape).requires_grad_()
    logit = torch.linspace(-3, 1, shape[0]).requires_grad_()
    gradient = torch.randn(shape)
    y = stacked_concrete_dropout(x, logit, temperature)
    y.backward(gradient)
    column = logit.detach().double().view(-1, 1, 1)
    p, scale = torch.sigmoid(column), 1 + torch.exp(column)
    mask = y.detach().double() / x.detach().double()  # (1 - z) scale
    z = 1 - mask / scale
    assert -1e-6 < z.min() < 0.1
    assert 0.9 < z.max() < 1 + 1e-6
    assert x.grad is not None
    assert logit.grad is not None
    torch.testing.assert_close(x.grad.double(), mask * gradient, rtol=1e-5, atol=1e-6)
    expected = (gradient * x.detach() * mask * (p - z / temperature)).sum((1, 2))
    size = (gradient * x.detach() * mask * (p - z / temperature)).square().sum((1, 2)).sqrt()
    torch.testing.assert_close(logit.grad.double() / size, expected / size, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("temperature", [0.1, 0.25, 0.3])
def test_every_replica_drops_with_its_own_p(temperature: float, expected_z: Callable[[float, float], float]) -> None:
    ps = [0.02, 0.2, 0.5, 0.9]
    logit = torch.logit(torch.tensor(ps))
    rows = 20_000
    y = stacked_concrete_dropout(torch.ones(4, rows, 10), logit, temperature)
    z = 1 - y.double() * (1 - torch.tensor(ps).double()).view(-1, 1, 1)
    for replica, p in enumerate(ps):
        error = z[replica].std() / (rows * 10) ** 0.5
        assert z[replica].mean().item() == pytest.approx(expected_z(p, temperature), abs=5 * error.item())


def test_extreme_logits_are_finite() -> None:
    x = torch.ones(3, 4, 5, requires_grad=True)
    logit = torch.tensor([-500.0, 0.0, 30.0], requires_grad=True)
    y = stacked_concrete_dropout(x, logit)
    y.sum().backward()
    assert x.grad is not None
    assert logit.grad is not None
    assert y.isfinite().all()
    assert x.grad.isfinite().all()
    assert logit.grad.isfinite().all()
    torch.testing.assert_close(y[0], torch.ones(4, 5))


def test_other_dtypes_and_strides() -> None:
    logit = torch.tensor([-20.0, -20.0], dtype=torch.float64)
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(stacked_concrete_dropout(x, logit), x)
    strided = torch.randn(2, 5, 4).transpose(1, 2)
    torch.testing.assert_close(stacked_concrete_dropout(strided, logit.float()), strided)


def test_gradients_of_gradients_are_refused() -> None:
    x, logit = torch.randn(2, 3, 4, requires_grad=True), torch.zeros(2, requires_grad=True)
    y = stacked_concrete_dropout(x, logit).sum()
    with pytest.raises(NotImplementedError, match="create_graph"):
        torch.autograd.grad(y, x, create_graph=True)
