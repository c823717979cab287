"""The KL of a swapped model (paper, equations 2 to 4), its probabilities, and optimiser groups.

    KL = sum over dropout layers of   sum_W l_W^2 / 2 * ||W||^2 / (1 - p)   -   K * H(p)

in nats, up to a constant, as a pure function of the parameters. The objective is ``nll.mean() + KL / num_data``.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.functional import bernoulli_entropy, weight_term
from concrete_dropout.dropout.kinds import kind_of
from concrete_dropout.dropout.layers import _ConcreteDropoutNd
from concrete_dropout.dropout.record import Entry, entries, layer_of, records, weight_of


@overload
def kl_divergence(model: nn.Module, per_layer: Literal[False] = False) -> Tensor: ...
@overload
def kl_divergence(model: nn.Module, per_layer: Literal[True]) -> dict[str, Tensor]: ...
def kl_divergence(model: nn.Module, per_layer: bool = False) -> Tensor | dict[str, Tensor]:
    """KL(q || prior) of all dropout layers, in nats and not divided by anything; differentiable.

    Concrete and fixed layers follow the same formula (the entropy of a fixed layer is a constant). A layer with p = 0
    has the weight term alone.

    Args:
        model: swapped with an ``example_input`` or ``owners``; may be wrapped (DDP, compile, Lightning).
        per_layer: return {dropout name: KL} instead of the sum.

    >>> model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1, bias=False))
    >>> model = swap_dropout(model, "concrete", init_p=0.5, length_scale=1.0, example_input=torch.zeros(1, 3))
    >>> nn.init.ones_(model[1].weight).shape
    torch.Size([1, 3])
    >>> kl_divergence(model).item() == pytest.approx(0.5 * 3 / (1 - 0.5) - 3 * math.log(2))
    True
    """
    if not records(model):
        raise ValueError(
            "kl_divergence needs a model that went through swap_dropout(model, kind, example_input=...), "
            "which finds the weights that each dropout masks"
        )
    terms = {name: _layer_kl(root, entry) for name, (root, entry) in entries(model).items()}
    if per_layer:
        return terms
    if not terms:
        return torch.zeros(())
    device = next(iter(terms.values())).device  # of a model that is spread over several
    return torch.stack([term.to(device) for term in terms.values()]).sum()


def dropout_probabilities(model: nn.Module) -> dict[str, float]:
    """{dropout name: p}, learned or fixed, in the order of the model.

    >>> dropout_probabilities(nn.Sequential(ConcreteDropout(0.25), nn.Linear(2, 1)))
    {'0': 0.25}
    """
    if records(model):
        return {name: layer_of(root, entry).p for name, (root, entry) in entries(model).items()}
    return {name: m.p for name, m in model.named_modules() if isinstance(m, _DropoutNd) and kind_of(m) != "none"}


def parameter_groups(
    model: nn.Module, *, lr: float, p_lr: float | None = None, weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """Optimiser groups: the p logits apart, with their own learning rate and never any weight decay.

    Args:
        model: its trainable parameters are grouped.
        lr: for everything but the p logits.
        p_lr: for the p logits; ``lr`` by default. p moves by about p_lr per step of Adam (in logits), so with
            a small one it is still near its start when training ends.
        weight_decay: for everything but the p logits. The KL holds a weight prior already, hence the warning.

    >>> model = nn.Sequential(ConcreteDropout(0.1), nn.Linear(2, 1))
    >>> [(group["name"], len(group["params"]), group["lr"]) for group in parameter_groups(model, lr=1e-3, p_lr=1e-2)]
    [('weights', 2, 0.001), ('p_logits', 1, 0.01)]
    """
    logits = {id(m.p_logit): m.p_logit for m in model.modules() if isinstance(m, _ConcreteDropoutNd)}
    if weight_decay > 0 and records(model):
        warnings.warn(
            f"weight_decay={weight_decay:g} comes on top of the prior in kl_divergence; the length scale is the "
            "principled knob",
            stacklevel=2,
        )
    weights = [q for q in model.parameters() if q.requires_grad and id(q) not in logits]
    groups = [{"name": "weights", "params": weights, "lr": lr, "weight_decay": weight_decay}]
    learned = [q for q in logits.values() if q.requires_grad]
    if learned:
        groups.append({"name": "p_logits", "params": learned, "lr": lr if p_lr is None else p_lr, "weight_decay": 0.0})
    return groups


def _layer_kl(root: nn.Module, entry: Entry) -> Tensor:
    layer = layer_of(root, entry)
    if entry.sites is None:
        if kind_of(layer) == "none":
            return torch.zeros(())
        raise ValueError(
            f"the weights that dropout {entry.name!r} masks are unknown: give swap_dropout an example_input or owners"
        )
    names = {owner.weight: owner for site in entry.sites for owner in site.owners}
    # Layers may share one parameter under two names: it is one weight of this dropout's q, and counts once.
    owned = {id(weight): (weight, names[name]) for name in names for weight in [weight_of(root, name)]}
    first = at_least_float32(next(iter(owned.values()))[0])
    logit = layer.p_logit if isinstance(layer, _ConcreteDropoutNd) else first.new_tensor(_fixed_logit(layer.p))
    logit = at_least_float32(logit)
    kl = -sum(site.num_entries for site in entry.sites) * bernoulli_entropy(logit)
    for weight, owner in owned.values():
        growth = math.sqrt(owner.fan_in) if entry.length_scale_mode == "sqrt_fan_in" else 1.0
        squared_norm = at_least_float32(weight).square().sum()
        kl = kl + weight_term(squared_norm, logit.to(weight.device), entry.length_scale * growth).to(kl.device)
    return kl


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor itself, or in float32 where it is narrower: sums of squares overflow in fp16."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _fixed_logit(p: float) -> float:
    # exp(-1000) is 0 and so is its entropy: the exact limit p -> 0 of both terms
    return math.log(p) - math.log1p(-p) if p > 0 else -1000.0
