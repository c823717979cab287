"""What callbacks need to know of a task's network: its dropout layers, in the order of the model."""

from __future__ import annotations

from typing import cast

import pytorch_lightning as pl
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.kinds import kind_of
from concrete_dropout.dropout.record import Row, records, swap_report


def network_of(task: pl.LightningModule) -> nn.Module:
    """The network of a task."""
    return cast(nn.Module, task.network)


def dropout_layers(task: pl.LightningModule) -> list[Row]:
    """Name, kind, p as it is now, owners and K of every dropout layer; also of a network that was never swapped."""
    network = network_of(task)
    if records(network):
        return list(swap_report(network).rows)
    return [
        Row(name, kind_of(module), module.p, (), 0)
        for name, module in network.named_modules()
        if isinstance(module, _DropoutNd)
    ]


def active_layers(task: pl.LightningModule) -> list[Row]:
    """The dropout layers that drop something: all but those of kind "none"."""
    return [row for row in dropout_layers(task) if row.kind != "none"]
