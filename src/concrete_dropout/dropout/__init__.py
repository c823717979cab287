"""Concrete dropout in pure torch: layers, swap, objective, sampling."""

from concrete_dropout.dropout.functional import concrete_dropout
from concrete_dropout.dropout.layers import (
    ConcreteDropout,
    ConcreteDropout1d,
    ConcreteDropout2d,
    ConcreteDropout3d,
)
from concrete_dropout.dropout.objective import dropout_probabilities, kl_divergence, parameter_groups
from concrete_dropout.dropout.recompute import preserve_masks
from concrete_dropout.dropout.record import SwapReport, swap_report
from concrete_dropout.dropout.sampling import mc_sampling
from concrete_dropout.dropout.swap import freeze, swap_dropout

__all__ = [
    "ConcreteDropout",
    "ConcreteDropout1d",
    "ConcreteDropout2d",
    "ConcreteDropout3d",
    "SwapReport",
    "concrete_dropout",
    "dropout_probabilities",
    "freeze",
    "kl_divergence",
    "mc_sampling",
    "parameter_groups",
    "preserve_masks",
    "swap_dropout",
    "swap_report",
]
