"""Concrete dropout: dropout probabilities learned by gradient descent, for any PyTorch model.

Names are imported when they are first used: commands that need no torch (help, reports) need not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'concrete_dropout' has no attribute {name!r}")
    for module in ("dropout", "montecarlo", "predictive"):
        home = import_module(f"concrete_dropout.{module}")
        if hasattr(home, name):
            globals()[name] = value = getattr(home, name)
            return value
    raise AttributeError(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
