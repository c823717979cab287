"""The MLP: where its dropouts stand, and what it computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from concrete_dropout import dropout_probabilities, kl_divergence, swap_dropout
from concrete_dropout.models import MLP, SkipMLP


def test_dropout_stands_in_front_of_every_linear_layer() -> None:
    kinds = [type(module) for module in MLP(3, 2, hidden=(8, 4)).layers]
    block = [nn.Dropout, nn.Linear, nn.ReLU]
    assert kinds == [*block, *block, nn.Dropout, nn.Linear]


def test_it_computes_what_its_weights_say() -> None:
    model, x = MLP(3, 2, hidden=(8,)).eval(), torch.randn(5, 3)
    first, second = (m for m in model.layers if isinstance(m, nn.Linear))
    hidden = (x @ first.weight.T + first.bias).clamp_min(0)
    torch.testing.assert_close(model(x), hidden @ second.weight.T + second.bias)


def test_no_hidden_layer_is_a_linear_model() -> None:
    assert [type(module) for module in MLP(3, 2, hidden=()).layers] == [nn.Dropout, nn.Linear]


def test_every_dropout_is_swapped_and_owns_the_layer_behind_it() -> None:
    model = swap_dropout(MLP(3, 2, hidden=(8, 4)), "concrete", init_p=0.2, example_input=torch.zeros(1, 3))
    assert list(dropout_probabilities(model)) == ["layers.0", "layers.3", "layers.6"]
    entropies = {"layers.0": 3, "layers.3": 8, "layers.6": 4}  # K is the number of input features
    entropy = -0.2 * torch.tensor(0.2).log() - 0.8 * torch.tensor(0.8).log()
    for name, kl in kl_divergence(model, per_layer=True).items():
        linear = model.layers[int(name.rpartition(".")[2]) + 1]
        expected = 0.5e-4 * linear.weight.square().sum() / 0.8 - entropies[name] * entropy
        torch.testing.assert_close(kl, expected)


@pytest.mark.parametrize("widths", [(0, 1, (4,)), (3, 0, (4,)), (3, 1, (4, 0))])
def test_empty_layers_are_refused(widths: tuple[int, int, tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="widths of at least 1"):
        MLP(*widths)


def test_a_linear_path_beside_the_layers() -> None:
    model = swap_dropout(SkipMLP(3, 2, hidden=(4,)), "fixed", p=0.999, example_input=torch.zeros(1, 3))
    assert list(dropout_probabilities(model)) == ["network.layers.0", "network.layers.3"]
    x = torch.randn(64, 3)
    torch.testing.assert_close(model.eval()(x), model.network(x) + model.skip(x))
    model.train()
    rest = model(x) - model.skip(x) - model.network.layers[-1].bias
    assert (rest.abs() < 1e-6).all(1).float().mean() > 0.9  # a row that lost its hidden layer has the linear path left
    before = kl_divergence(model)
    nn.init.ones_(model.skip.weight)
    assert kl_divergence(model) == before  # no prior there
