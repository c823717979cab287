"""Scoring trained networks again: several numbers of samples, masks and splits, shifted data, fitted temperatures.

Knows tasks, data and metrics; neither configs nor trainers.
"""

from concrete_dropout.evaluation.passes import Outcome, Wanted, evaluate_unit
from concrete_dropout.evaluation.plan import Plan, Unit, planned_units
from concrete_dropout.evaluation.store import Store
from concrete_dropout.evaluation.subjects import Foreign, Member, Subject

__all__ = [
    "Foreign",
    "Member",
    "Outcome",
    "Plan",
    "Store",
    "Subject",
    "Unit",
    "Wanted",
    "evaluate_unit",
    "planned_units",
]
