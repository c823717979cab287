from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.errors import UserError
from concrete_dropout.models.function_draws import FunctionDraws, layers_of
from concrete_dropout.models.mlp import MLP

K, P, D, OUT = 3, 4, 5, 2


def masks(dropout: _DropoutNd, width: int) -> Tensor:
    """Different for every draw and width, and never all ones."""
    return torch.linspace(0, 2, K * width, dtype=torch.float64).view(K, width)


def make() -> tuple[nn.Module, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    inputs = torch.randn(D, dtype=torch.float64), torch.rand(D, dtype=torch.float64) + 0.5
    outputs = torch.randn(OUT, dtype=torch.float64), torch.rand(OUT, dtype=torch.float64) + 0.5
    return MLP(D, OUT, hidden=(7, 6)).double(), inputs, outputs


def by_hand(network: nn.Module, x: Tensor, inputs: tuple[Tensor, Tensor], outputs: tuple[Tensor, Tensor]) -> Tensor:
    h = (x - inputs[0]) / inputs[1]
    linear = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    for number, layer in enumerate(linear):
        h = layer(h * masks(nn.Dropout(), layer.in_features).unsqueeze(1))
        h = torch.relu(h) if number < len(linear) - 1 else h
    return outputs[0] + outputs[1] * h


def test_the_chain_by_hand() -> None:
    network, inputs, outputs = make()
    draws = FunctionDraws.of(layers_of(network), masks, inputs, outputs)
    x = torch.randn(K, P, D, dtype=torch.float64)
    torch.testing.assert_close(draws(x), by_hand(network, x, inputs, outputs))


def test_gradients() -> None:
    network, inputs, outputs = make()
    draws = FunctionDraws.of(layers_of(network), masks, inputs, outputs)
    assert torch.autograd.gradcheck(draws, torch.randn(K, P, D, dtype=torch.float64, requires_grad=True))


def test_without_masks_it_is_the_network() -> None:
    network, inputs, outputs = make()
    draws = FunctionDraws.of(layers_of(network), None, inputs, outputs)
    x = torch.randn(K, P, D, dtype=torch.float64)
    expected = outputs[0] + outputs[1] * network.eval()(((x - inputs[0]) / inputs[1]).flatten(0, 1)).view(K, P, OUT)
    torch.testing.assert_close(draws(x), expected)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(2, 2), nn.Dropout()),
        nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)),
        nn.Sequential(nn.ReLU(), nn.Linear(2, 2)),
    ],
)
def test_other_networks_are_refused(network: nn.Module) -> None:
    with pytest.raises(UserError):
        layers_of(network)
