"""A stack against its networks: outputs, objective, gradients, and what cannot be stacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from concrete_dropout import dropout_probabilities, kl_divergence, parameter_groups, swap_dropout
from concrete_dropout.dropout import layers as single_layers
from concrete_dropout.errors import UserError
from concrete_dropout.models import MLP, GaussianHead, stacked_layers
from concrete_dropout.models.stacked import StackedNetwork
from concrete_dropout.settings import DropoutSettings

NUM_INPUTS, NUM_REPLICAS, NUM_ROWS = 3, 4, 10
KINDS = ["none", "fixed", "concrete"]


def make_networks(kind: Any, head: bool = True, **settings: Any) -> list[nn.Module]:
    networks: list[nn.Module] = []
    for index in range(NUM_REPLICAS):
        mlp = MLP(NUM_INPUTS, 2, hidden=(8, 6))
        own = {"init_p": 0.1 + 0.15 * index, "p": 0.1 * (index + 1), "length_scale": 0.1 + 0.1 * index}
        network = GaussianHead(mlp, min_std=0.2 * index) if head else mlp
        networks.append(DropoutSettings(kind, **{**own, **settings}).apply(network, torch.zeros(1, NUM_INPUTS)))
    return networks


@pytest.fixture
def x() -> Tensor:
    return torch.randn(NUM_REPLICAS, NUM_ROWS, NUM_INPUTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", [True, False])
def test_without_dropout_every_replica_computes_what_its_network_does(kind: str, head: bool, x: Tensor) -> None:
    networks = make_networks(kind, head)
    output = StackedNetwork(networks).eval()(x)
    for index, network in enumerate(networks):
        expected = network.eval()(x[index])
        parts = zip(output, expected, strict=True) if head else [(output, expected)]
        for stacked, alone in parts:
            torch.testing.assert_close(stacked[index], alone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["constant", "sqrt_fan_in"])
def test_kl_and_its_gradients(kind: str, mode: str) -> None:
    networks = make_networks(kind, length_scale_mode=mode)
    stack = StackedNetwork(networks)
    kl = stack.kl()
    torch.testing.assert_close(kl, torch.stack([kl_divergence(network) for network in networks]).detach())
    kl.sum().backward()
    for network in networks:
        kl_divergence(network).backward()
    assert_same_gradients(stack, networks)


def assert_same_gradients(stack: StackedNetwork, networks: list[nn.Module], **tolerance: Any) -> None:
    compared = 0
    prefix = "network." if stack.is_gaussian else ""
    for name, parameter in stack.named_parameters():
        for index, network in enumerate(networks):
            alone = network.get_parameter(prefix + name).grad
            if alone is None:
                assert parameter.grad is None or not parameter.grad[index].any()
            else:
                assert parameter.grad is not None
                torch.testing.assert_close(parameter.grad[index], alone, **tolerance)
                compared += 1
    assert compared > 0


@pytest.mark.parametrize("head", [True, False])
def test_gradients_of_the_objective_under_the_same_masks(
    head: bool, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same noise for both, through plain expressions; the masks themselves have tests of their own."""
    networks = make_networks("concrete", head)
    stack = StackedNetwork(networks)
    widths = (NUM_INPUTS, 8, 6)
    noise = [torch.logit(torch.rand(NUM_REPLICAS, NUM_ROWS, width), eps=1e-6) for width in widths]
    used: Iterator[Tensor] = iter(noise)

    def drop(x: Tensor, logit: Tensor, temperature: float, **_: Any) -> Tensor:
        column = logit.view(-1, 1, 1) if x.dim() == 3 else logit
        return x * torch.sigmoid(-(column + next(used)) / temperature) * (1 + torch.exp(column))

    monkeypatch.setattr(stacked_layers, "stacked_concrete_dropout", drop)
    monkeypatch.setattr(single_layers, "concrete_dropout", drop)

    def loss(output: Any, kl: Tensor) -> Tensor:
        parts = torch.cat(output, dim=-1) if head else output
        return parts.sin().sum() / NUM_ROWS + kl.sum() / 50

    loss(stack(x), stack.kl()).backward()
    for index, network in enumerate(networks):
        used = iter([layer[index] for layer in noise])
        loss(network(x[index]), kl_divergence(network)).backward()
    assert_same_gradients(stack, networks, rtol=1e-4, atol=1e-6)


def test_gradients_of_real_masks_agree_on_average() -> None:
    """Many rows stand for many masks: the mean gradient of p in both, within error bars from parts of the rows."""
    rows, parts = 4000, 20
    networks = make_networks("concrete", head=False)
    stack = StackedNetwork(networks)
    x = torch.randn(1, 1, NUM_INPUTS).expand(NUM_REPLICAS, rows, -1)

    def gradients(stacked: bool) -> Tensor:
        found = []
        for piece in x.split(rows // parts, dim=1):
            if stacked:
                stack.zero_grad()
                stack(piece).square().mean((1, 2)).sum().backward()
                found.append(torch.stack([q.grad for name, q in stack.named_parameters() if "p_logit" in name]))
            else:
                for network in networks:
                    network.zero_grad()
                    network(piece[0]).square().mean().backward()
                each = [[q.grad for name, q in n.named_parameters() if "p_logit" in name] for n in networks]
                found.append(torch.stack([torch.stack(list(column)) for column in zip(*each, strict=True)]))
        return torch.stack(found).double()  # (parts, layers, R)

    together, apart = gradients(True), gradients(False)
    error = ((together.var(0) + apart.var(0)) / parts).sqrt()
    assert ((together.mean(0) - apart.mean(0)).abs() < 5 * error).all()
    assert (together.mean(0).abs() > 5 * error).any()  # there is something to compare


@pytest.mark.parametrize("varied", [False, True])
def test_fixed_dropout_drops_with_each_replica_s_p(varied: bool) -> None:
    settings = {} if varied else {"p": 0.3}
    stack = StackedNetwork(make_networks("fixed", head=False, **settings))
    dropped = stack.layers[0](torch.ones(NUM_REPLICAS, 5000, NUM_INPUTS))
    for index, p in enumerate(next(iter(stack.probabilities().values()))):
        assert p == pytest.approx(0.1 * (index + 1) if varied else 0.3)
        assert (dropped[index] == 0).double().mean().item() == pytest.approx(p, abs=0.02)
        assert dropped[index].max().item() == pytest.approx(1 / (1 - p))


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_have_the_names_of_the_networks(kind: str) -> None:
    networks = make_networks(kind)
    stack = StackedNetwork(networks)
    assert stack.is_stochastic == (kind != "none")
    assert set(stack.kinds.values()) == {kind}
    for index, network in enumerate(networks):
        own = {name: ps[index] for name, ps in stack.probabilities().items()}
        assert own == pytest.approx(dropout_probabilities(network))
        assert list(own) == list(dropout_probabilities(network))


@pytest.mark.parametrize("kind", KINDS)
def test_write_back(kind: str) -> None:
    networks = make_networks(kind)
    stack = StackedNetwork(networks)
    before = [{name: value.clone() for name, value in network.state_dict().items()} for network in networks]
    stack.write_back()
    assert all(torch.equal(v, before[i][name]) for i, n in enumerate(networks) for name, v in n.state_dict().items())
    with torch.no_grad():
        for number, parameter in enumerate(stack.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).view(parameter.shape) + number)
    stack.write_back()
    for index, network in enumerate(networks):
        for name, value in stack.state_dict().items():
            assert torch.equal(network.get_parameter(f"network.{name}"), value[index])
    again = StackedNetwork(networks)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in stack.state_dict().items())


def test_parameter_groups_are_those_of_a_network() -> None:
    networks = make_networks("concrete")
    stack = StackedNetwork(networks)
    groups = stack.parameter_groups(lr=1e-3, p_lr=1e-2)
    expected = parameter_groups(networks[0], lr=1e-3, p_lr=1e-2)
    for group, alone in zip(groups, expected, strict=True):
        assert {key: value for key, value in group.items() if key != "params"} == {
            key: value for key, value in alone.items() if key != "params"
        }
        assert [q.shape[1:] for q in group["params"]] == [q.shape for q in alone["params"]]
    assert [group["name"] for group in StackedNetwork(make_networks("none")).parameter_groups(lr=1)] == ["weights"]
    with pytest.warns(UserWarning, match="weight_decay=0.1 comes on top of the prior"):
        decayed = stack.parameter_groups(lr=1e-3, weight_decay=0.1)
    assert [group["weight_decay"] for group in decayed] == [0.1, 0.0]


def test_placed_excluded_and_wrapped_dropouts(x: Tensor) -> None:
    def make(p: float) -> nn.Module:
        inner = nn.Sequential(
            nn.Linear(NUM_INPUTS, 5), nn.Identity(), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2, bias=False)
        )
        inner = swap_dropout(
            inner, "concrete", init_p=p, place="0", exclude="3", example_input=torch.zeros(1, NUM_INPUTS)
        )
        return GaussianHead(inner)  # swapped before it was wrapped

    networks = [make(0.1 + 0.1 * index) for index in range(NUM_REPLICAS)]
    stack = StackedNetwork(networks)
    torch.testing.assert_close(stack.kl(), torch.stack([kl_divergence(network) for network in networks]))
    assert {name: ps[1] for name, ps in stack.probabilities().items()} == dropout_probabilities(networks[1])
    torch.testing.assert_close(stack.eval()(x)[0][2], networks[2].eval()(x[2])[0])
    assert (stack.train().layers[3](torch.ones(NUM_REPLICAS, 50, 5)) == 0).any()  # the excluded one still drops


def swapped(network: nn.Module, kind: Any = "concrete", **settings: Any) -> nn.Module:
    return swap_dropout(network, kind, example_input=torch.zeros(1, NUM_INPUTS), **settings)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout, self.linear = nn.Dropout(0.5), nn.Linear(NUM_INPUTS, NUM_INPUTS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.linear(self.dropout(x))
        return out


def test_anything_but_an_mlp_is_refused_by_name() -> None:
    network = nn.Sequential(Residual(), nn.Linear(NUM_INPUTS, 1))
    with pytest.raises(UserError, match=r"replicas need an MLP .* but '0', a Residual, cannot be stacked"):
        StackedNetwork([swapped(network)])
    shared = nn.Linear(NUM_INPUTS, NUM_INPUTS)
    with pytest.raises(UserError, match="'2', a Linear, is used more than once"):
        StackedNetwork([swapped(nn.Sequential(nn.Dropout(0.5), shared, shared), owners={"0": "1"})])
    hooked = swapped(MLP(NUM_INPUTS, 1))
    hooked.get_submodule("layers.1").register_forward_hook(lambda module, args, out: out)
    with pytest.raises(UserError, match=r"'layers\.1', a Linear, has hooks"):
        StackedNetwork([hooked])
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(NUM_INPUTS, 1))
    with pytest.raises(UserError, match="'1', a ParametrizedLinear, cannot be stacked"):
        StackedNetwork([swapped(nn.Sequential(nn.Dropout(0.5), normed))])


def test_networks_that_differ_are_refused() -> None:
    wide, narrow = swapped(MLP(NUM_INPUTS, 1, hidden=(8,))), swapped(MLP(NUM_INPUTS, 1, hidden=(9,)))
    with pytest.raises(
        UserError, match=r"replica 1 has a Linear layer 3 -> 9 \(layers.1\) where replica 0 has .* -> 8"
    ):
        StackedNetwork([wide, narrow])
    with pytest.raises(UserError, match=r"replica 1 has 2 layers where replica 0 has 5"):
        StackedNetwork([swapped(MLP(NUM_INPUTS, 8, hidden=hidden)) for hidden in ((8,), ())])
    with pytest.raises(UserError, match="the same kind of dropout"):
        StackedNetwork([wide, swapped(MLP(NUM_INPUTS, 1, hidden=(8,)), "fixed")])
    with pytest.raises(UserError, match=r"the same dropout\.temperature, but dropout 'layers\.0' has 0\.1, 0\.2"):
        StackedNetwork([wide, swapped(MLP(NUM_INPUTS, 1, hidden=(8,)), temperature=0.2)])
    with pytest.raises(UserError, match="only some of them have a GaussianHead"):
        StackedNetwork([wide, swapped(GaussianHead(MLP(NUM_INPUTS, 2, hidden=(8,))))])
    with pytest.raises(UserError, match="the same dropouts in all networks"):
        StackedNetwork([swapped(MLP(NUM_INPUTS, 1), "fixed"), swapped(MLP(NUM_INPUTS, 1), "fixed", exclude="layers.0")])


def test_inputs_of_another_number_of_replicas() -> None:
    with pytest.raises(ValueError, match=r"x \(3, 5, 3\) must be \(R, B, D\) with R = 4"):
        StackedNetwork(make_networks("none"))(torch.zeros(3, 5, 3))
