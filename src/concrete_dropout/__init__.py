"""Concrete dropout: dropout probabilities learned by gradient descent, for any PyTorch model."""

from concrete_dropout.dropout import (
    ConcreteDropout,
    ConcreteDropout1d,
    ConcreteDropout2d,
    ConcreteDropout3d,
    concrete_dropout,
    dropout_probabilities,
    freeze,
    kl_divergence,
    mc_sampling,
    parameter_groups,
    preserve_masks,
    swap_dropout,
    swap_report,
)
from concrete_dropout.montecarlo import mc_predict
from concrete_dropout.predictive import (
    CategoricalAccumulator,
    CategoricalPrediction,
    GaussianAccumulator,
    GaussianPrediction,
)

__all__ = [
    "CategoricalAccumulator",
    "CategoricalPrediction",
    "ConcreteDropout",
    "ConcreteDropout1d",
    "ConcreteDropout2d",
    "ConcreteDropout3d",
    "GaussianAccumulator",
    "GaussianPrediction",
    "concrete_dropout",
    "dropout_probabilities",
    "freeze",
    "kl_divergence",
    "mc_predict",
    "mc_sampling",
    "parameter_groups",
    "preserve_masks",
    "swap_dropout",
    "swap_report",
]
