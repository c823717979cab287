"""Networks: plain modules written with ordinary dropout."""

from concrete_dropout.models.heads import GaussianHead
from concrete_dropout.models.mlp import MLP, SkipMLP

__all__ = ["MLP", "GaussianHead", "SkipMLP"]
