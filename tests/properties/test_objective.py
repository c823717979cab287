"""The KL of random networks against a reference in float64, and what must not change it."""

from __future__ import annotations

import copy
import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import p_logits, random_network, seeds
from torch import nn

from concrete_dropout import dropout_probabilities, kl_divergence, swap_dropout, swap_report

length_scales = st.floats(1e-3, 10)


def reference(weights: list[torch.Tensor], logit: float, entries: int, length_scale: float) -> float:
    """l^2 / 2 sum ||W||^2 / (1 - p) - K H(p), with the logarithms of p and 1 - p from the logit."""
    p, q = (1 / (1 + math.exp(sign * logit)) for sign in (-1, 1))
    log_p, log_q = (-math.log1p(math.exp(-abs(a))) + min(a, 0.0) for a in (logit, -logit))
    squares = sum(float(weight.double().square().sum()) for weight in weights)
    return 0.5 * length_scale**2 * squares * (1 + math.exp(logit)) + entries * (p * log_p + q * log_q)


@given(st.integers(1, 9), st.integers(1, 9), p_logits, length_scales, seeds)
def test_one_layer_has_the_closed_form(inputs: int, outputs: int, logit: float, length_scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(inputs, outputs))
    swap_dropout(model, "concrete", length_scale=length_scale, example_input=torch.zeros(1, inputs))
    with torch.no_grad():
        model[0].p_logit.fill_(logit)
    expected = reference([model[1].weight.detach()], model[0].p_logit.item(), inputs, length_scale)
    kl = kl_divergence(model)
    kl.backward()
    assert math.isclose(kl.item(), expected, rel_tol=1e-4, abs_tol=1e-5)
    assert all(bool(torch.isfinite(q.grad).all()) for q in model.parameters() if q.grad is not None)


@given(seeds, length_scales)
def test_a_network_has_the_sum_of_its_layers_whatever_was_computed_before(seed: int, length_scale: float) -> None:
    model, x = random_network(seed)
    swap_dropout(model, "concrete", init_p=(0.05, 0.5), length_scale=length_scale, example_input=x)
    layers = {name: term.item() for name, term in kl_divergence(model, per_layer=True).items()}
    before = kl_divergence(model).item()
    assert math.isclose(before, math.fsum(layers.values()), rel_tol=1e-5, abs_tol=1e-5)
    model.train()
    model(x).sum().backward()
    assert kl_divergence(model).item() == before == kl_divergence(copy.deepcopy(model)).item()
    assert set(layers) == set(dropout_probabilities(model))


@given(seeds)
def test_every_dropout_of_a_random_network_owns_weights(seed: int) -> None:
    model, x = random_network(seed)
    expected = model(x)
    swap_dropout(model, "concrete", example_input=x)
    torch.testing.assert_close(model(x), expected)  # silent in eval mode
    rows = str(swap_report(model))
    assert all(name in rows for name in dropout_probabilities(model))
    for name, term in kl_divergence(model, per_layer=True).items():
        (gradient,) = torch.autograd.grad(term, model.get_submodule(name).p_logit)
        assert math.isfinite(gradient.item())
        assert term.item() < 1e6


@given(seeds)
def test_kinds_can_be_changed_back_and_forth(seed: int) -> None:
    model, x = random_network(seed)
    expected = model(x)
    for kind in ("fixed", "concrete", "none", "concrete"):
        arguments = {"include": "*"} if kind != "none" else {}
        swap_dropout(model, kind, example_input=x, **arguments)
        torch.testing.assert_close(model(x), expected)
    model.train()
    assert bool(torch.isfinite(model(x)).all())
