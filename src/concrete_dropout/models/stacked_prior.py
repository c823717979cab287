"""The KL of a stack of networks, from the records that ``swap_dropout`` left on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from concrete_dropout.dropout.functional import bernoulli_entropy
from concrete_dropout.dropout.objective import at_least_float32
from concrete_dropout.dropout.record import Entry, entries, layer_of, weight_of
from concrete_dropout.errors import UserError
from concrete_dropout.models.stacked_layers import StackedDropout, StackedLinear


class StackedPrior(nn.Module):
    """KL(q || prior) of each replica in nats, (R,); called without arguments.

    With dropouts d and masked weights w, and C_dwr = l^2 / 2 where d masks w, else 0,

        KL_r = sum_d  [ sum_w C_dwr ||W_wr||^2 ] / (1 - p_dr)  -  K_d H(p_dr)

    Args:
        networks: of the replicas.
        dropouts: {dropout of the first network: its stack}.
        linears: {weight of the first network: its stack}.
        like: has the device and dtype to compute with.

    Attributes:
        dropouts: {name: stack}, with the names and the order of ``dropout_probabilities``.
    """

    coefficients: Tensor  # (dropouts, weights, R)
    num_entries: Tensor  # (dropouts, 1)

    def __init__(
        self,
        networks: Sequence[nn.Module],
        dropouts: Mapping[_DropoutNd, StackedDropout],
        linears: Mapping[Tensor, StackedLinear],
        like: Tensor,
    ) -> None:
        super().__init__()
        found = [entries(network) for network in networks]
        masked = [{name: entry.sites for name, (_, entry) in replica.items()} for replica in found]
        if any(other != masked[0] for other in masked):
            raise UserError(
                "replicas need the same dropouts in all networks: dropout.place, .include, .exclude and .owners must "
                "not differ"
            )
        self.dropouts = {name: dropouts[layer_of(root, entry)] for name, (root, entry) in found[0].items()}
        owners = [_owned_weights(root, name, entry, linears) for name, (root, entry) in found[0].items()]
        # In a tuple: the stacks are parts of the network, not of its prior.
        self._linears = tuple(dict.fromkeys(linear for owned in owners for linear in owned))
        columns = {linear: column for column, linear in enumerate(self._linears)}
        coefficients = torch.zeros(len(owners), len(columns), len(networks), dtype=torch.float64)
        for row, (name, owned) in enumerate(zip(self.dropouts, owners, strict=True)):
            for linear, fan_in in owned.items():
                for replica, named in enumerate(found):
                    entry = named[name][1]
                    growth = fan_in if entry.length_scale_mode == "sqrt_fan_in" else 1.0
                    coefficients[row, columns[linear], replica] = 0.5 * entry.length_scale**2 * growth
        counts = [[sum(site.num_entries for site in entry.sites or ())] for _, entry in found[0].values()]
        self.register_buffer("coefficients", coefficients.to(like), persistent=False)
        self.register_buffer("num_entries", torch.tensor(counts).to(like), persistent=False)

    def forward(self) -> Tensor:
        if not self._linears:
            return self.coefficients.new_zeros(self.coefficients.shape[-1])
        squares = [at_least_float32(linear.weight).square().sum((1, 2)) for linear in self._linears]
        weights = (self.coefficients * torch.stack(squares)).sum(1)  # (dropouts, R)
        logits = torch.stack([at_least_float32(dropout.logits) for dropout in self.dropouts.values()])
        return (weights * (1 + torch.exp(logits)) - self.num_entries * bernoulli_entropy(logits)).sum(0)


def _owned_weights(
    root: nn.Module, name: str, entry: Entry, linears: Mapping[Tensor, StackedLinear]
) -> dict[StackedLinear, int]:
    """{stack of a masked weight: K_in}."""
    owned: dict[StackedLinear, int] = {}
    for owner in (owner for site in entry.sites or () for owner in site.owners):
        linear = linears.get(weight_of(root, owner.weight))
        if linear is None:
            raise UserError(f"replicas: dropout {name!r} masks {owner.weight!r}, which is no weight of a Linear layer")
        owned[linear] = owner.fan_in
    return owned
