"""The swap on random architectures: outputs, names and weights stay, and the KL is that of the mathematics."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.architectures import Masked, architecture
from tests.properties.strategies import p_logits, seeds
from torch import nn

from concrete_dropout import dropout_probabilities, freeze, kl_divergence, swap_dropout
from concrete_dropout.dropout.layers import _ConcreteDropoutNd

length_scales = st.floats(1e-3, 3)
modes = st.sampled_from(["constant", "sqrt_fan_in"])
kinds = st.sampled_from(["none", "fixed", "concrete"])


def reference_kl(masked: Masked, logit: float, length_scale: float, mode: str) -> float:
    """l^2 / 2 sum ||W||^2 / (1 - p) - K H(p) in float64; l sqrt(K_in) with fan-in."""
    total = 0.0
    for layer in masked.weights:
        weight = layer.weight.detach().double().numpy()
        fan_in = weight.shape[1] if mode == "sqrt_fan_in" else 1
        total += 0.5 * length_scale**2 * fan_in * float(np.square(weight).sum())
    log_p, log_q = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    entropy = -math.exp(log_p) * log_p - math.exp(log_q) * log_q
    return total * math.exp(-log_q) - masked.entries * float(entropy)


@given(seeds, st.lists(p_logits, min_size=16, max_size=16), length_scales, modes)
def test_the_kl_is_that_of_the_weights_that_each_dropout_was_built_to_mask(
    seed: int, logits: list[float], length_scale: float, mode: str
) -> None:
    net = architecture(seed)
    swap_dropout(net.model, "concrete", length_scale=length_scale, length_scale_mode=mode, example_input=net.x)
    assert set(dropout_probabilities(net.model)) == set(net.masked)
    with torch.no_grad():
        for number, name in enumerate(net.masked):
            net.model.get_submodule(name).p_logit.fill_(logits[number % len(logits)])
    found = kl_divergence(net.model, per_layer=True)
    for name, masked in net.masked.items():
        logit = net.model.get_submodule(name).p_logit.item()
        expected = reference_kl(masked, logit, length_scale, mode)
        assert math.isclose(found[name].item(), expected, rel_tol=1e-4, abs_tol=1e-4), name
    total = kl_divergence(net.model)
    total.backward()
    assert math.isfinite(total.item())
    assert all(bool(torch.isfinite(q.grad).all()) for q in net.model.parameters() if q.grad is not None)


@given(seeds, kinds)
def test_outputs_stay_to_the_last_bit_and_names_stay(seed: int, kind: str) -> None:
    net = architecture(seed)
    expected, names = net.model(net.x), list(net.model.state_dict())
    before = {name: value.clone() for name, value in net.model.state_dict().items()}
    swap_dropout(net.model, kind, example_input=net.x)  # type: ignore[arg-type]
    assert torch.equal(net.model(net.x), expected)
    after = net.model.state_dict()
    assert [name for name in after if not name.endswith("p_logit")] == names
    assert all(torch.equal(after[name], value) for name, value in before.items())
    added = {name for name in after if name not in before}
    wanted = {f"{name}.p_logit" for name, _ in net.model.named_modules(remove_duplicate=False)} & added
    assert added == wanted
    assert bool(added) == (kind == "concrete")
    assert not net.model.training


@given(seeds, st.floats(0.01, 0.9))
def test_freezing_goes_back_to_torch_at_the_learned_p(seed: int, p: float) -> None:
    net = architecture(seed)
    expected, names = net.model(net.x), list(net.model.state_dict())
    swap_dropout(net.model, "concrete", init_p=p, example_input=net.x)
    frozen = freeze(net.model)
    assert list(frozen.state_dict()) == names
    assert torch.equal(frozen(net.x), expected)
    layers = [part for part in frozen.modules() if isinstance(part, nn.modules.dropout._DropoutNd)]
    assert layers
    assert all(type(part).__module__ == "torch.nn.modules.dropout" and abs(part.p - p) < 1e-5 for part in layers)
    assert any(isinstance(part, _ConcreteDropoutNd) for part in net.model.modules()), "freeze changed the model itself"
    swap_dropout(frozen, "concrete", init_p=p, example_input=net.x)  # and on from there
    assert math.isclose(kl_divergence(frozen).item(), kl_divergence(net.model).item(), rel_tol=1e-5, abs_tol=1e-5)


@given(seeds)
def test_a_copy_is_as_good_and_its_own(seed: int) -> None:
    net = architecture(seed)
    swap_dropout(net.model, "concrete", example_input=net.x)
    twin = copy.deepcopy(net.model)
    before = kl_divergence(net.model).item()
    assert kl_divergence(twin).item() == before
    assert torch.equal(twin(net.x), net.model(net.x))
    twin.train()
    (twin(net.x).square().mean() + kl_divergence(twin)).backward()
    with torch.no_grad():
        for value in twin.parameters():
            value.add_(1.0)
    assert kl_divergence(net.model).item() == before
    assert all(value.grad is None for value in net.model.parameters())
    net.model.load_state_dict(twin.state_dict())
    assert kl_divergence(net.model).item() == kl_divergence(twin).item()


@given(seeds, st.sampled_from([torch.float64, torch.bfloat16, torch.float16]))
def test_other_dtypes_agree_with_float32(seed: int, dtype: torch.dtype) -> None:
    net = architecture(seed)
    swap_dropout(net.model, "concrete", init_p=0.3, example_input=net.x)
    reference = kl_divergence(net.model).item()
    other = copy.deepcopy(net.model).to(dtype)
    kl = kl_divergence(other)
    tolerance = 1e-5 if dtype is torch.float64 else 3e-2
    assert kl.dtype in (torch.float32, torch.float64)
    assert math.isclose(kl.item(), reference, rel_tol=tolerance, abs_tol=tolerance * (1 + abs(reference)))
    other.train()
    out = other(net.x.to(dtype))
    assert out.dtype is dtype
    assert bool(torch.isfinite(out).all())
