"""The KL against closed forms and the paper's pair; the objective's gradient against quadrature."""

from __future__ import annotations

import copy
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from concrete_dropout.dropout import (
    ConcreteDropout,
    ConcreteDropout2d,
    dropout_probabilities,
    kl_divergence,
    parameter_groups,
    swap_dropout,
)

F64 = torch.float64
NUM_DATA = 50


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p) if 0 < p < 1 else 0.0


def closed_form(p: float, weights: list[Tensor], K: int, length_scale: float) -> float:
    """l^2 / 2 * ||W||^2 / (1 - p) - K H(p), with Python's own arithmetic."""
    squared_norm = sum(value**2 for weight in weights for value in weight.detach().flatten().tolist())
    return length_scale**2 / 2 * squared_norm / (1 - p) - K * entropy(p)


def mlp(kind: str = "concrete", **settings) -> nn.Sequential:
    model = nn.Sequential(nn.Dropout(0.2), nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.4), nn.Linear(5, 2), nn.Flatten())
    settings = {"init_p": 0.3, "length_scale": 0.7, "example_input": torch.zeros(2, 3)} | settings
    return swap_dropout(model, kind, **settings)


# -- closed forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "ps"),
    [
        ("concrete", {}, (0.3, 0.3)),
        ("fixed", {}, (0.2, 0.4)),
        ("fixed", {"p": 0.25}, (0.25, 0.25)),
        ("none", {}, (0.0, 0.0)),
    ],
)
def test_mlp_of_every_kind(kind, settings, ps):
    model = mlp(kind, **settings)
    expected = {
        "0": closed_form(ps[0], [model[1].weight], 3, 0.7),
        "3": closed_form(ps[1], [model[4].weight], 5, 0.7),
    }
    per_layer = kl_divergence(model, per_layer=True)
    assert {name: kl.item() for name, kl in per_layer.items()} == pytest.approx(expected, rel=1e-5)
    assert kl_divergence(model).item() == pytest.approx(sum(expected.values()), rel=1e-5)


def test_kl_of_no_dropout_is_the_limit_of_a_vanishing_p():
    torch.manual_seed(1)
    without = kl_divergence(mlp("none")).item()
    torch.manual_seed(1)
    assert kl_divergence(mlp("fixed", p=1e-9)).item() == pytest.approx(without, abs=1e-6)


@pytest.mark.parametrize(
    ("dropout", "convolution", "shape"),
    [
        (nn.Dropout2d, nn.Conv2d, (2, 3, 8, 7)),
        (nn.Dropout, nn.Conv2d, (2, 3, 8, 7)),
        (nn.Dropout, nn.Conv2d, (3, 8, 7)),
        (nn.Dropout1d, nn.Conv1d, (2, 3, 8)),
        (nn.Dropout1d, nn.Conv1d, (3, 8)),
        (nn.Dropout3d, nn.Conv3d, (3, 8, 7, 5)),
    ],
)
def test_entries_in_front_of_a_convolution_are_its_input_channels(dropout, convolution, shape):
    model = nn.Sequential(dropout(0.5), convolution(3, 6, 3))
    swap_dropout(model, "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(shape))
    assert kl_divergence(model).item() == pytest.approx(closed_form(0.2, [model[1].weight], 3, 0.5), rel=1e-5)


def test_entries_behind_a_convolution_are_its_output_channels():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Dropout2d(0.5))
    swap_dropout(model, "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(2, 3, 8, 7))
    assert kl_divergence(model).item() == pytest.approx(closed_form(0.2, [model[0].weight], 6, 0.5), rel=1e-5)


class TwoHeads(nn.Module):
    """Two heads on one dropout: one mask lies on the columns of both weights."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.mean, self.log_var = nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.dropout(x)
        return self.mean(h), self.log_var(h)


def test_two_heads_on_one_dropout_share_its_entropy():
    model = swap_dropout(TwoHeads(), "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(1, 4))
    expected = closed_form(0.2, [model.mean.weight, model.log_var.weight], 4, 0.5)
    assert kl_divergence(model).item() == pytest.approx(expected, rel=1e-5)


class OneDropoutTwice(nn.Module):
    """One dropout module called at two places: two masks with one p."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.dropout(self.first(self.dropout(x)).relu()))


def test_one_dropout_at_two_places_has_the_entropy_of_both():
    model = swap_dropout(OneDropoutTwice(), "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(1, 4))
    expected = closed_form(0.2, [model.first.weight, model.second.weight], 4 + 6, 0.5)
    assert kl_divergence(model).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "told",
    [{"example_input": torch.zeros(1, 4)}, {"owners": {"dropout": ["mean", "log_var"]}}],
    ids=lambda d: next(iter(d)),
)
def test_a_weight_that_two_heads_share_counts_once(tied, told):
    model = TwoHeads()
    model.log_var = nn.Linear(4, 2)
    if tied:
        model.log_var.weight = model.mean.weight
    swap_dropout(model, "concrete", init_p=0.2, length_scale=0.5, **told)
    weights = [model.mean.weight] if tied else [model.mean.weight, model.log_var.weight]
    assert kl_divergence(model).item() == pytest.approx(closed_form(0.2, weights, 4, 0.5), rel=1e-5)


def test_length_scale_can_grow_with_the_root_of_the_fan_in():
    model = mlp(length_scale_mode="sqrt_fan_in")
    expected = {
        "0": closed_form(0.3, [model[1].weight], 3, 0.7 * math.sqrt(3)),
        "3": closed_form(0.3, [model[4].weight], 5, 0.7 * math.sqrt(5)),
    }
    per_layer = kl_divergence(model, per_layer=True)
    assert {name: kl.item() for name, kl in per_layer.items()} == pytest.approx(expected, rel=1e-5)


def test_biases_are_left_out():
    model = mlp()
    before = kl_divergence(model).item()
    kl_divergence(model).backward()
    assert all(layer.bias.grad is None for layer in (model[1], model[4]))
    with torch.no_grad():
        for layer in (model[1], model[4]):
            layer.bias.add_(100.0)
    assert kl_divergence(model).item() == before


def test_a_later_swap_of_the_whole_replaces_that_of_a_part():
    part = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 4))
    swap_dropout(part, "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(1, 3))
    whole = nn.Sequential(part, nn.Dropout(0.5), nn.Linear(4, 1))
    swap_dropout(whole, "concrete", init_p=0.2, length_scale=5.0, example_input=torch.zeros(1, 3))
    expected = {
        "0.0": closed_form(0.2, [part[1].weight], 3, 5.0),
        "1": closed_form(0.2, [whole[2].weight], 4, 5.0),
    }
    per_layer = kl_divergence(whole, per_layer=True)
    assert {name: kl.item() for name, kl in per_layer.items()} == pytest.approx(expected, rel=1e-5)


# -- a pure function of the parameters ---------------------------------------------------------------------


def test_kl_does_not_depend_on_forward_passes_modes_or_checkpointing():
    model, x = mlp(), torch.randn(6, 3)
    before = kl_divergence(model)
    model.train()(x).sum().backward()
    model.eval()(x)
    checkpoint(model.train(), x, use_reentrant=False).sum().backward()
    state = torch.get_rng_state()
    assert torch.equal(kl_divergence(model), before)
    assert torch.equal(kl_divergence(model.eval()), before)
    assert torch.equal(torch.get_rng_state(), state)


def test_kl_follows_a_loaded_state():
    model, other = mlp(), mlp()
    assert kl_divergence(other).item() != pytest.approx(kl_divergence(model).item())
    other.load_state_dict(model.state_dict())
    assert torch.equal(kl_divergence(other), kl_divergence(model))


def test_gradient_of_the_kl_is_that_of_the_closed_form():
    model = mlp()
    kl_divergence(model).backward()
    p, logit = 0.3, math.log(0.3 / 0.7)
    for dropout, layer, K in ((model[0], model[1], 3), (model[3], model[4], 5)):
        torch.testing.assert_close(layer.weight.grad, 0.7**2 * layer.weight.detach() / (1 - p))
        # d/dlogit: p / (1 - p) from the weight term; the entropy has the slope -logit p (1 - p)
        squared_norm = layer.weight.detach().square().sum().item()
        expected = 0.7**2 / 2 * squared_norm * p / (1 - p) + K * logit * p * (1 - p)
        assert dropout.p_logit.grad.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_weights_do_not_overflow(dtype):
    # A sum of 40000 squares of 100 is 4e8; float16 ends at 65504.
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(200, 200))
    swap_dropout(model, "concrete", init_p=0.2, length_scale=0.5, example_input=torch.zeros(1, 200))
    nn.init.constant_(model[1].weight, 100.0)
    kl = kl_divergence(model.to(dtype))
    assert kl.dtype == torch.float32
    p = model[0].p  # as rounded to the dtype
    assert kl.item() == pytest.approx(0.5**2 / 2 * 4e8 / (1 - p) - 200 * entropy(p), rel=1e-5)


@pytest.mark.parametrize("kind", ["concrete", "fixed"])
def test_a_float64_model_has_a_float64_kl(kind):
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 2)).double()
    swap_dropout(model, kind, init_p=0.3, length_scale=0.5, example_input=torch.zeros(1, 4, dtype=F64))
    kl = kl_divergence(model.double())
    assert kl.dtype == F64
    expected = closed_form(model[0].p, [model[1].weight], 4, 0.5)
    assert kl.item() == pytest.approx(expected, rel=1e-6)


# -- the paper's pair of regularisers ----------------------------------------------------------------------


def keras_regulariser(model: nn.Sequential, weight_regularizer: float, dropout_regularizer: float) -> Tensor:
    """What the authors' Keras wrapper adds to the loss of an ``mlp``."""
    total = torch.zeros(())
    for dropout, layer, K in ((model[0], model[1], 3), (model[3], model[4], 5)):
        p = torch.sigmoid(dropout.p_logit)
        kernel = weight_regularizer * torch.sum(torch.square(layer.weight)) / (1.0 - p)
        dropout_term = p * torch.log(p) + (1.0 - p) * torch.log(1.0 - p)
        total = total + kernel + dropout_regularizer * K * dropout_term
    return total


def assert_same_loss(ours: Tensor, theirs: Tensor, model: nn.Module) -> None:
    torch.testing.assert_close(ours, theirs)
    parameters = list(model.parameters())
    found, expected = (torch.autograd.grad(loss, parameters, retain_graph=True) for loss in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("tau", [0.5, 1.0, 8.0])
def test_pair_for_the_euclidean_loss(tau):
    model, length_scale = mlp(), 0.7
    output = model(torch.randn(20, 3))
    squared_error = (torch.randn(20, 2) - output).square().sum(dim=1)
    constant = math.log(2 * math.pi / tau)  # two outputs of precision tau, in nats
    objective = (0.5 * tau * squared_error + constant).mean() + kl_divergence(model) / NUM_DATA
    pair = length_scale**2 / (tau * NUM_DATA), 2 / (tau * NUM_DATA)
    assert_same_loss(2 / tau * (objective - constant), squared_error.mean() + keras_regulariser(model, *pair), model)


def test_pair_for_the_cross_entropy():
    model, length_scale = mlp(), 0.7
    nll = F.cross_entropy(model(torch.randn(20, 3)), torch.arange(20) % 2)
    objective = nll + kl_divergence(model) / NUM_DATA
    pair = length_scale**2 / (2 * NUM_DATA), 1 / NUM_DATA
    assert_same_loss(objective, nll + keras_regulariser(model, *pair), model)


# -- the gradient of the whole objective -------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)  # CPU kernels and plain expressions
def test_mean_gradient_for_the_logit_is_the_slope_of_the_exact_objective(p, dtype, logistic_nodes):
    """y ~ N(w^T (x * mask), sigma^2) with K = 2: the expectation over both mask entries by quadrature."""
    x, target, weight, sigma, length_scale = (1.5, -0.8), 0.6, (0.9, 1.3), 0.5, 0.7
    v, density = logistic_nodes
    v, density = v[::2], 2 * density[::2]

    def objective(logit: float) -> float:
        drop = torch.sigmoid((v + logit) / 0.1)
        kept = (1 - drop) * (1 + math.exp(logit))
        mean = weight[0] * x[0] * kept[:, None] + weight[1] * x[1] * kept[None, :]
        nll = 0.5 * ((target - mean) / sigma) ** 2 + math.log(sigma) + 0.5 * math.log(2 * math.pi)
        p = 1 / (1 + math.exp(-logit))
        kl = length_scale**2 / 2 * (weight[0] ** 2 + weight[1] ** 2) / (1 - p) - 2 * entropy(p)
        return float(density @ nll @ density) + kl / NUM_DATA

    logit, step = math.log(p / (1 - p)), 1e-4
    slope = (objective(logit + step) - objective(logit - step)) / (2 * step)

    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1, bias=False)).to(dtype)
    example = torch.zeros(1, 2, dtype=dtype)
    swap_dropout(model, "concrete", init_p=p, length_scale=length_scale, example_input=example).to(dtype)
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([weight]))
    batch = torch.tensor(x, dtype=dtype).expand(2000, 2)
    estimates = []
    for _ in range(200):
        model.zero_grad()
        mean = model(batch)
        nll = 0.5 * ((target - mean) / sigma).square() + math.log(sigma) + 0.5 * math.log(2 * math.pi)
        (nll.mean() + kl_divergence(model) / NUM_DATA).backward()
        estimates.append(model[0].p_logit.grad.item())
    estimate = torch.tensor(estimates, dtype=F64)
    error = estimate.std().item() / math.sqrt(len(estimates))
    assert error < 0.02 * abs(slope)  # sharp enough to tell
    assert estimate.mean().item() == pytest.approx(slope, abs=4 * error)


# -- wrapped models ----------------------------------------------------------------------------------------


class Wrapper(nn.Module):
    """As DDP and Lightning modules hold a network."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize(
    "wrap",
    [Wrapper, copy.deepcopy, partial(torch.compile, backend="eager"), lambda model: Wrapper(Wrapper(model))],
    ids=["attribute", "deepcopy", "compile", "twice"],
)
def test_a_wrapped_model_has_the_kl_and_names_of_the_model(wrap):
    model = mlp()
    wrapped = wrap(model)
    expected = kl_divergence(model, per_layer=True)
    assert kl_divergence(wrapped, per_layer=True) == expected
    assert torch.equal(kl_divergence(wrapped), kl_divergence(model))
    assert dropout_probabilities(wrapped) == dropout_probabilities(model)


def test_two_swapped_models_in_one_are_told_apart_by_their_prefix():
    first, second = mlp(), mlp()
    both = nn.ModuleDict({"first": first, "second": second})
    per_layer = kl_divergence(both, per_layer=True)
    assert list(per_layer) == ["first.0", "first.3", "second.0", "second.3"]
    expected = kl_divergence(first).item() + kl_divergence(second).item()
    assert kl_divergence(both).item() == pytest.approx(expected, rel=1e-6)


# -- what cannot be answered -------------------------------------------------------------------------------


def test_a_model_that_was_not_swapped_is_refused():
    with pytest.raises(ValueError, match="went through swap_dropout"):
        kl_divergence(nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1)))


def test_a_swap_without_example_input_or_owners_is_refused():
    with pytest.raises(ValueError, match="dropout '0' masks are unknown: give swap_dropout an example_input"):
        kl_divergence(mlp(example_input=None))


@pytest.mark.parametrize("attribute", ["dropout", "mean"])
def test_a_layer_that_is_gone_is_named(attribute):
    model = swap_dropout(TwoHeads(), "concrete", example_input=torch.zeros(1, 4))
    delattr(model, attribute)
    with pytest.raises(ValueError, match=rf"'{attribute}.*gone from the model since swap_dropout"):
        kl_divergence(model)


# -- probabilities -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("concrete", {"0": 0.3, "3": 0.3}), ("fixed", {"0": 0.2, "3": 0.4}), ("none", {"0": 0.0, "3": 0.0})],
)
def test_probabilities_of_a_swapped_model(kind, expected):
    assert dropout_probabilities(mlp(kind)) == pytest.approx(expected, abs=1e-6)


def test_probabilities_are_the_present_ones():
    model = mlp()
    with torch.no_grad():
        model[0].p_logit.fill_(1.0)
    assert dropout_probabilities(model) == pytest.approx({"0": 1 / (1 + math.exp(-1)), "3": 0.3}, abs=1e-6)


def test_probabilities_of_a_model_built_by_hand():
    inner = nn.Sequential(nn.Dropout(0.5), ConcreteDropout(0.3))
    model = nn.Sequential(ConcreteDropout2d(0.1), inner, nn.Dropout(0))
    assert dropout_probabilities(model) == pytest.approx({"0": 0.1, "1.0": 0.5, "1.1": 0.3}, abs=1e-6)


# -- optimiser groups --------------------------------------------------------------------------------------


def names_by_group(model: nn.Module, groups: list[dict]) -> dict[str, list[str]]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {group["name"]: [names[parameter] for parameter in group["params"]] for group in groups}


def test_logits_have_a_group_of_their_own():
    model = nn.Sequential(ConcreteDropout(0.1), nn.Linear(2, 2), ConcreteDropout(0.1), nn.Linear(2, 1))
    groups = parameter_groups(model, lr=1e-3, p_lr=1e-2, weight_decay=0.5)
    assert names_by_group(model, groups) == {
        "weights": ["1.weight", "1.bias", "3.weight", "3.bias"],
        "p_logits": ["0.p_logit", "2.p_logit"],
    }
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [(1e-3, 0.5), (1e-2, 0.0)]


def test_logits_take_the_common_learning_rate_by_default():
    groups = parameter_groups(nn.Sequential(ConcreteDropout(0.1), nn.Linear(2, 1)), lr=1e-3)
    assert [group["lr"] for group in groups] == [1e-3, 1e-3]


def test_a_step_with_weight_decay_moves_weights_and_leaves_logits():
    model = nn.Sequential(ConcreteDropout(0.1), nn.Linear(2, 1))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(parameter_groups(model, lr=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(model[1].weight.detach(), before["1.weight"] * (1 - 0.1 * 0.5))
    assert torch.equal(model[0].p_logit, before["0.p_logit"])


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(ConcreteDropout(0.1), nn.Linear(2, 2), ConcreteDropout(0.1), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    groups = parameter_groups(model, lr=1e-3)
    assert names_by_group(model, groups) == {"weights": ["3.weight", "3.bias"], "p_logits": ["2.p_logit"]}


def test_a_shared_dropout_is_in_its_group_once():
    dropout = ConcreteDropout(0.1)
    model = nn.Sequential(dropout, nn.Linear(2, 2), dropout, nn.Linear(2, 1))
    assert names_by_group(model, parameter_groups(model, lr=1e-3))["p_logits"] == ["0.p_logit"]


def test_a_model_without_concrete_dropout_has_one_group():
    assert [group["name"] for group in parameter_groups(mlp("fixed"), lr=1e-3)] == ["weights"]


def test_weight_decay_on_top_of_the_prior_is_warned_of():
    with pytest.warns(UserWarning, match=r"weight_decay=0.01 comes on top of the prior"):
        parameter_groups(mlp(), lr=1e-3, weight_decay=0.01)
