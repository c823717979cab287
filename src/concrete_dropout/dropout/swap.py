"""swap_dropout and freeze: the only place where the kind of a model's dropout is chosen."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.flow import Flow, trace
from concrete_dropout.dropout.kinds import CONCRETE_OF_PLAIN, KINDS, Kind, kind_of, plain_class
from concrete_dropout.dropout.layers import InitP, _ConcreteDropoutNd, check_init_p, check_temperature
from concrete_dropout.dropout.noise import compute_dtype
from concrete_dropout.dropout.owners import (
    LengthScaleMode,
    Patterns,
    as_patterns,
    explicit_sites,
    traced_sites,
)
from concrete_dropout.dropout.place import (
    CHILD,
    hook_plainly,
    is_placed,
    place_dropout,
    placeable,
    site_in_front_of,
    unplace_dropout,
)
from concrete_dropout.dropout.record import (
    ATTRIBUTE,
    Entry,
    SwapRecord,
    group_by_reason,
    listing,
    records,
    renew_record,
    weight_of,
)
from concrete_dropout.dropout.sites import Site

Model = TypeVar("Model", bound=nn.Module)
DEFAULT_P = 0.1


def swap_dropout(
    model: Model,
    kind: Kind,
    *,
    init_p: InitP = DEFAULT_P,
    temperature: float = 0.1,
    length_scale: float = 1e-2,
    length_scale_mode: LengthScaleMode = "constant",
    p: float | None = None,
    place: Patterns = (),
    include: Patterns = (),
    exclude: Patterns = (),
    owners: Mapping[str, Patterns] | None = None,
    example_input: object = None,
    generator: torch.Generator | None = None,
) -> Model:
    """Make every dropout of ``model`` none, fixed or Concrete, in place; returns the model.

    Args:
        model: any module written with ``nn.Dropout*`` (or with none: see ``place``).
        kind: "concrete" learns p; "fixed" keeps it at ``p``; "none" sets it to 0.
        init_p: initial p of Concrete layers, or a range (low, high) to draw it from.
        temperature: of Concrete layers.
        length_scale: l, the prior's length scale. The KL takes l^2 / 2 * ||W||^2 / (1 - p) of each masked weight.
        length_scale_mode: "constant" for l, "sqrt_fan_in" for l * sqrt(K_in), the paper's for UCI and MNIST.
        p: of fixed layers; by default each keeps its own.
        place: patterns (``"decoder.*"``) of Linear and Conv layers to put a dropout in front of.
        include: patterns of dropouts to swap, those with p = 0 too; by default all with p > 0.
        exclude: patterns of dropouts to leave alone.
        owners: {dropout: layers or parameters whose weight it masks}, where the dry pass cannot tell.
            A layer in front of the dropout is written ``"conv:rows"``: its output features are dropped.
        example_input: a batch for one dry pass in eval mode that finds the weights each dropout masks: a tensor, a
            tuple of arguments or a dict of keyword arguments. Without it ``kl_divergence`` is not available.
        generator: source of the masks of Concrete layers.

    Raises:
        ValueError: nothing to swap, patterns that match nothing, a dropout that masks no weight, bad numbers.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    >>> swap_dropout(model, "concrete", init_p=0.2, example_input=torch.zeros(1, 2))[2]
    ConcreteDropout(p=0.2, temperature=0.1)
    """
    _check_arguments(kind, init_p, temperature, length_scale, length_scale_mode, p)
    whole, model = model, getattr(model, "_orig_mod", model)  # a compiled model is swapped inside
    fresh, placed = _place_all(model, as_patterns(place))
    try:
        chosen, skipped = _choose(model, kind, as_patterns(include), as_patterns(exclude), placed)
        flow = None if example_input is None else trace(model, chosen, example_input)
        if not chosen and kind != "none":
            raise ValueError(_nothing_to_swap(model, kind, skipped, flow))
        sites = _find_sites(model, kind, chosen, placed, owners or {}, flow)
        if kind == "fixed":
            _check_fixed(chosen, fresh, p)
    except BaseException:
        for layer in fresh.values():
            unplace_dropout(layer)
        raise
    for name, old in chosen.items():
        if kind == "concrete":
            reference = _reference_weight(model, sites[name])
            new = CONCRETE_OF_PLAIN[_plain(old)](
                init_p,
                temperature=temperature,
                generator=generator,
                device=None if reference is None else reference.device,
                dtype=None if reference is None else compute_dtype(reference.dtype),
            )
        else:
            fixed = 0.0 if kind == "none" else p if p is not None else DEFAULT_P if name in fresh else old.p
            new = _plain(old)(p=fixed)
        new.training = old.training
        _replace(model, old, new)
    record = SwapRecord(
        tuple(Entry(name, sites[name], length_scale, length_scale_mode) for name in chosen),
        tuple(skipped.items()),
        tuple(flow.functional) if flow else (),
    )
    renew_record(model, record)
    return whole


def freeze(model: Model) -> Model:
    """A copy of ``model`` for deployment: ordinary ``nn.Dropout*`` at the learned p, torch's classes only.

    Its state dict has the names of the model before the swap, and its pickle loads without this package.

    >>> model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1))
    >>> model = swap_dropout(model, "concrete", init_p=0.25, example_input=torch.zeros(1, 2))
    >>> freeze(model)[0]
    Dropout(p=0.25, inplace=False)
    """
    frozen = copy.deepcopy(model)
    for layer in list(frozen.modules()):
        if isinstance(layer, _ConcreteDropoutNd):
            new = _plain(layer)(p=round(layer.p, 7))  # float32 logits carry no more digits
            new.training = layer.training
            _replace(frozen, layer, new)
    for layer in frozen.modules():
        if is_placed(layer):
            hook_plainly(layer)
    for _, root, _ in records(frozen):
        delattr(root, ATTRIBUTE)
    return frozen


def _check_arguments(
    kind: str, init_p: InitP, temperature: float, length_scale: float, mode: str, p: float | None
) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    if mode not in get_args(LengthScaleMode):
        raise ValueError(f"length_scale_mode={mode!r} must be one of {', '.join(get_args(LengthScaleMode))}")
    if not (math.isfinite(length_scale) and length_scale > 0):
        raise ValueError(f"length_scale={length_scale!r} must be a positive number")
    if p is not None and not 0 <= p < 1:
        raise ValueError(f"p={p!r} of fixed dropout must lie in [0, 1)")
    check_init_p(init_p)
    check_temperature(temperature)


def _check_fixed(chosen: Mapping[str, _DropoutNd], fresh: Mapping[str, nn.Module], p: float | None) -> None:
    for name, module in chosen.items():
        if p is None and name not in fresh and not 0 < module.p < 1:
            raise ValueError(f"dropout {name!r} has p = {module.p:g}: give p=... for kind='fixed'")


def _place_all(model: nn.Module, patterns: tuple[str, ...]) -> tuple[dict[str, nn.Module], dict[str, nn.Module]]:
    """Dropout in front of every matching layer.

    Returns {name of the dropout: layer} twice: those that are new, and all that the patterns name.
    """
    layers = placeable(model)
    matched: dict[str, nn.Module] = {}
    for pattern in patterns:
        found = {name: layer for name, layer in layers.items() if fnmatchcase(name, pattern)}
        if not found:
            raise ValueError(f"place={pattern!r} matches no Linear or Conv layer; there are: {listing(layers)}")
        matched |= found
    named = {f"{name}.{CHILD}" if name else CHILD: layer for name, layer in matched.items()}
    fresh: dict[str, nn.Module] = {}
    try:
        for name, layer in named.items():
            if not is_placed(layer):
                place_dropout(layer)
                fresh[name] = layer
    except BaseException:
        for layer in fresh.values():
            unplace_dropout(layer)
        raise
    return fresh, named


def _choose(
    model: nn.Module,
    kind: Kind,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    placed: Mapping[str, nn.Module],
) -> tuple[dict[str, _DropoutNd], dict[str, str]]:
    """Dropouts to swap, and the others with the reason why not."""
    dropouts = {name: module for name, module in model.named_modules() if isinstance(module, _DropoutNd)}
    if "" in dropouts:
        raise ValueError(
            "the model is itself a dropout layer and cannot be replaced in place: wrap it, e.g. in nn.Sequential"
        )
    for argument, patterns in (("include", include), ("exclude", exclude)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in dropouts):
                raise ValueError(f"{argument}={pattern!r} matches no dropout; there are: {listing(dropouts)}")
    chosen: dict[str, _DropoutNd] = {}
    skipped: dict[str, str] = {}
    for name, module in dropouts.items():
        named = any(fnmatchcase(name, pattern) for pattern in include)
        if name not in placed and any(fnmatchcase(name, pattern) for pattern in exclude):
            skipped[name] = "excluded"
        elif plain_class(module) is None:
            skipped[name] = f"{type(module).__name__} has no Concrete counterpart"
        elif name not in placed and include and not named:
            skipped[name] = "not included"
        elif kind_of(module) == "none" and not named and name not in placed:
            skipped[name] = "p = 0 marks a place only; include it to make it active"
        else:
            chosen[name] = module
    return chosen, skipped


def _find_sites(
    model: nn.Module,
    kind: Kind,
    chosen: Mapping[str, _DropoutNd],
    placed: Mapping[str, nn.Module],
    owners: Mapping[str, Patterns],
    flow: Flow | None,
) -> dict[str, tuple[Site, ...] | None]:
    for name in owners:
        if name not in chosen:
            raise ValueError(f"owners names {name!r}, which is not swapped; swapped are: {listing(chosen)}")
    sites: dict[str, tuple[Site, ...] | None] = {}
    problems: dict[str, str] = {}
    for name in chosen:
        calls = None if flow is None else flow.calls[name]
        if name in owners:
            sites[name] = explicit_sites(model, name, as_patterns(owners[name]), calls)
        elif name in placed and calls != []:
            sites[name] = (site_in_front_of(name.removesuffix(CHILD).removesuffix("."), placed[name]),)
        else:
            found = None if calls is None else traced_sites(calls)
            sites[name] = None if isinstance(found, str) else found
            if isinstance(found, str) and kind != "none":
                problems[name] = found
    if problems:
        first = next(iter(problems))
        raise ValueError(
            f"cannot tell which weights dropout {first!r} masks: it {problems[first]}. Name them, as in "
            f"owners={{{first!r}: 'layer'}} ('layer:rows' for a layer in front of the dropout), or leave it alone with "
            f"exclude={first!r}. All such dropouts: {listing(problems, most=40)}"
        )
    return sites


def _plain(module: _DropoutNd) -> type[_DropoutNd]:
    plain = plain_class(module)
    assert plain is not None
    return plain


def _reference_weight(model: nn.Module, sites: tuple[Site, ...] | None) -> Tensor | None:
    """A tensor on the device where a dropout works: a weight it masks, else any parameter."""
    if sites:
        return weight_of(model, sites[0].owners[0].weight)
    return next(model.parameters(), None)


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put ``new`` wherever ``old`` stands: a module may be shared under several names."""
    for parent in list(model.modules()):
        for attribute, child in list(parent._modules.items()):
            if child is old:
                parent._modules[attribute] = new


def _nothing_to_swap(model: nn.Module, kind: Kind, skipped: Mapping[str, str], flow: Flow | None) -> str:
    found = group_by_reason(skipped.items()) + ([str(call) for call in flow.functional] if flow else [])
    looked = "" if flow else " (functional calls are noticed only with an example_input)"
    layers = list(placeable(model))
    remedy = f"place={layers[-1]!r} puts one in front of that layer, place='*' in front of all" if layers else ""
    return (
        f"kind={kind!r} was asked for, but there is no dropout to swap. Found: {'; '.join(found) or 'none'}{looked}. "
        f"To add some: {remedy or 'the model has no Linear or Conv layer to place one in front of'}"
    )
