"""What a swap did, kept on the model as plain names, and printed as a table.

Names rather than references: deepcopy, pickling, state dicts, DDP and torch.compile need not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrize import is_parametrized

from concrete_dropout.dropout.kinds import kind_of
from concrete_dropout.dropout.modes import evaluating
from concrete_dropout.dropout.sites import FunctionalCall, Site

ATTRIBUTE = "_dropout_swap"


@dataclass(frozen=True)
class Entry:
    """One dropout layer of a swapped model.

    Attributes:
        name: of the layer, from the model that was swapped.
        sites: what it masks; None where neither an example input nor ``owners`` told.
        length_scale: l, the inverse standard deviation of the prior over its weights.
        length_scale_mode: "constant" (l) or "sqrt_fan_in" (l * sqrt(K_in)).
    """

    name: str
    sites: tuple[Site, ...] | None
    length_scale: float
    length_scale_mode: str


@dataclass(frozen=True)
class SwapRecord:
    """All dropout layers of a swapped model, and the ones that were left alone with the reason."""

    entries: tuple[Entry, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    functional: tuple[FunctionalCall, ...] = ()

    def updated(self, newer: SwapRecord) -> SwapRecord:
        """This record after another swap of the same model."""
        renewed = {entry.name: entry for entry in (*self.entries, *newer.entries)}
        skipped = tuple((name, why) for name, why in newer.skipped if name not in renewed)
        return SwapRecord(tuple(renewed.values()), skipped, newer.functional or self.functional)


def records(model: nn.Module) -> list[tuple[str, nn.Module, SwapRecord]]:
    """(prefix, swapped model, record) for every swapped model in ``model``, which may be a wrapper around it.

    The prefix is empty where there is one only, so that names stay the same under DDP, compile or Lightning.
    """
    found = [
        (name, module, cast(SwapRecord, vars(module)[ATTRIBUTE]))
        for name, module in model.named_modules()
        if ATTRIBUTE in vars(module)
    ]
    if len(found) == 1:
        return [("", *found[0][1:])]
    return [(f"{name}." if name else "", module, record) for name, module, record in found]


def entries(model: nn.Module) -> dict[str, tuple[nn.Module, Entry]]:
    """{full name of a dropout: (swapped model, entry)}.

    Where a part of a swapped model was swapped again by itself, its entries replace those of the whole.
    """
    by_layer: dict[int, tuple[str, nn.Module, Entry]] = {}
    for prefix, root, record in records(model):
        for entry in record.entries:
            by_layer[id(layer_of(root, entry))] = (prefix + entry.name, root, entry)
    return {name: (root, entry) for name, root, entry in by_layer.values()}


def renew_record(model: nn.Module, record: SwapRecord) -> None:
    """Write down a swap of ``model``; what earlier swaps of its parts said about the same layers is void."""
    renewed = {entry.name for entry in record.entries}
    for name, part in model.named_modules():
        if name and ATTRIBUTE in vars(part):
            old = cast(SwapRecord, vars(part)[ATTRIBUTE])
            left = tuple(entry for entry in old.entries if f"{name}.{entry.name}" not in renewed)
            setattr(part, ATTRIBUTE, replace(old, entries=left)) if left else delattr(part, ATTRIBUTE)
    setattr(model, ATTRIBUTE, cast(SwapRecord, vars(model).get(ATTRIBUTE, SwapRecord())).updated(record))


def layer_of(root: nn.Module, entry: Entry) -> _DropoutNd:
    """The dropout layer an entry speaks of."""
    return cast(_DropoutNd, _resolve(root, entry.name))


def weight_of(root: nn.Module, name: str) -> Tensor:
    """A weight by its name; a parametrised one (weight norm, ...) is computed anew."""
    return cast(Tensor, _resolve(root, name))


def _resolve(root: nn.Module, name: str) -> object:
    path, _, attribute = name.rpartition(".")
    try:
        holder = root.get_submodule(path)
        if not is_parametrized(holder, attribute):
            return getattr(holder, attribute)
        # In train mode spectral norm takes a step of its power iteration whenever its weight is asked for.
        with evaluating(cast(nn.ModuleDict, holder.parametrizations)[attribute]):
            return getattr(holder, attribute)
    except AttributeError as error:
        raise ValueError(
            f"{name!r} is gone from the model since swap_dropout was called; call swap_dropout again after a change"
        ) from error


@dataclass(frozen=True)
class Row:
    """One line of a report: p as it is now, owners by name, K mask entries (0 where owners are unknown)."""

    module: str
    kind: str
    p: float
    owners: tuple[str, ...]
    num_entries: int


@dataclass(frozen=True)
class SwapReport:
    """What was swapped, skipped and owned. Prints as a table."""

    rows: tuple[Row, ...]
    skipped: tuple[tuple[str, str], ...]
    functional: tuple[FunctionalCall, ...]

    def __str__(self) -> str:
        header = ("module", "kind", "p", "owners", "K")
        cells = [
            (row.module, row.kind, f"{row.p:.4f}", ", ".join(row.owners) or "-", str(row.num_entries or "-"))
            for row in self.rows
        ]
        lines = _table([header, *cells]) if cells else ["no dropout was swapped"]
        lines += [f"left alone, {reason}" for reason in group_by_reason(self.skipped)]
        lines += [f"out of reach: {call}" for call in self.functional]
        return "\n".join(lines)


def group_by_reason(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """One line per reason, with the names it applies to."""
    names: dict[str, list[str]] = {}
    for name, reason in skipped:
        names.setdefault(reason, []).append(name)
    return [f"{reason}: {listing(group)}" for reason, group in names.items()]


def listing(names: Iterable[str], most: int = 8) -> str:
    """Names for a message, not too many of them."""
    names = list(names)
    rest = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + rest or "none"


def swap_report(model: nn.Module) -> SwapReport:
    """The report on a swapped model, with the probabilities as they are now.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    >>> model = swap_dropout(model, "concrete", init_p=0.1, example_input=torch.zeros(2, 4))
    >>> print(swap_report(model))
    module  kind      p       owners    K
    ------  --------  ------  --------  -
    2       concrete  0.1000  3.weight  8
    """
    found = records(model)
    if not found:
        raise ValueError("this model was not swapped: call swap_dropout(model, kind, example_input=...) first")
    rows = tuple(_row(name, layer_of(root, entry), entry) for name, (root, entry) in entries(model).items())
    return SwapReport(
        rows,
        tuple((prefix + name, why) for prefix, _, record in found for name, why in record.skipped),
        tuple(call for _, _, record in found for call in record.functional),
    )


def _row(name: str, layer: _DropoutNd, entry: Entry) -> Row:
    prefix = name.removesuffix(entry.name)
    sites = entry.sites or ()
    owners = dict.fromkeys(prefix + owner.weight for site in sites for owner in site.owners)
    return Row(name, kind_of(layer), layer.p, tuple(owners), sum(site.num_entries for site in sites))


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    ruled = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in ruled]
