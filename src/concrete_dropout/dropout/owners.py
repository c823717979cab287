"""From what the dry pass saw, or what the user named, to the sites whose KL is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from concrete_dropout.dropout.flow import Call
from concrete_dropout.dropout.sites import Owner, Site

LengthScaleMode = Literal["constant", "sqrt_fan_in"]
Patterns = str | Iterable[str]


def as_patterns(value: Patterns) -> tuple[str, ...]:
    """One string or several, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


def traced_sites(calls: Sequence[Call]) -> tuple[Site, ...] | str:
    """Sites of a dropout from its calls in the dry pass, or the reason why there are none.

    Calls that mask the same weights count once: a recurrent network masks them again at every step.
    """
    if not calls:
        return "was not reached by the dry pass (in eval mode)"
    sites: dict[tuple[Owner, ...], Site] = {}
    for call in calls:
        site = call.site()
        if site is None:
            return (
                f"masks a tensor of shape {call.shape} that goes into no Linear or Conv layer and comes from none, "
                "with at most views, ReLU and pooling between"
            )
        sites[site.owners] = site
    return tuple(sites.values())


@dataclass(frozen=True)
class Sizes:
    """Features of a weight: inputs (columns), outputs (rows), and inputs per output (K_in; fewer with groups)."""

    inputs: int
    outputs: int
    fan_in: int


def layer_sizes(layer: nn.Module | None) -> Sizes | None:
    """Sizes of a layer's weight, where its class tells them."""
    if isinstance(layer, nn.modules.conv._ConvNd):
        return Sizes(layer.in_channels, layer.out_channels, layer.in_channels // layer.groups)
    if isinstance(layer, nn.Linear):
        return Sizes(layer.in_features, layer.out_features, layer.in_features)
    if isinstance(layer, nn.Embedding):
        return Sizes(layer.num_embeddings, layer.embedding_dim, layer.num_embeddings)
    return None


def explicit_sites(model: nn.Module, name: str, specs: tuple[str, ...], calls: Sequence[Call] | None) -> tuple[Site]:
    """The site that a user described: layers or parameters, ``:rows`` or ``:columns`` behind them if need be."""
    owners, entries, side = [], 0, "columns"
    for spec in specs:
        target, _, wanted = spec.partition(":")
        if wanted not in ("", "rows", "columns"):
            raise ValueError(f"owners[{name!r}]={spec!r}: what stands behind the colon must be rows or columns")
        weight, sizes = _named_weight(model, name, target)
        side = wanted or _likely_side(sizes, calls)
        owners.append(Owner(weight, sizes.fan_in))
        entries = max(entries, sizes.inputs if side == "columns" else sizes.outputs)
    if not owners:
        raise ValueError(f"owners[{name!r}] is empty: name at least one layer, or exclude the dropout")
    channels = calls[0].channels if calls else None
    return (Site(tuple(owners), channels or entries, side),)


def _named_weight(model: nn.Module, name: str, target: str) -> tuple[str, Sizes]:
    """The full name and the sizes of the weight that a user named by its layer or by itself."""
    layer = dict(model.named_modules(remove_duplicate=False)).get(target)
    weight_name = target if layer is None else f"{target}.weight"
    path, _, attribute = weight_name.rpartition(".")
    try:
        holder = model.get_submodule(path)
        weight = getattr(holder, attribute)
    except AttributeError:
        weight = None
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        raise ValueError(f"owners[{name!r}]: {target!r} is no layer with a weight matrix and no such parameter")
    sizes = layer_sizes(holder) if attribute == "weight" else None
    return weight_name, sizes or Sizes(weight.shape[1], weight.shape[0], weight.shape[1])


def _likely_side(sizes: Sizes, calls: Sequence[Call] | None) -> str:
    """Rows if only the output size fits the tensor that was seen at the dropout, else columns."""
    seen = {size for call in calls or () for size in (call.shape[1:2] + call.shape[-1:])}
    return "rows" if sizes.outputs in seen and sizes.inputs not in seen else "columns"
