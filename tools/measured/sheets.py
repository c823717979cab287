"""CSV files beside those of the experiments."""

from __future__ import annotations

from dataclasses import dataclass

WHERE_FROM = ("started", "commit", "hardware", "command", "study")


@dataclass(frozen=True)
class OwnSheet:
    """A file.

    Args:
        name: of it.
        keys: columns that, with ``settings``, tell one row from another.
        more: the other columns.
    """

    name: str
    keys: tuple[str, ...]
    more: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return (*self.keys, "settings", *self.more, *WHERE_FROM)


def _with_errors(*names: str) -> tuple[str, ...]:
    return tuple(column for name in names for column in (name, f"{name}_se"))


TUNING = OwnSheet(
    "tuning",
    # Means are compared only where they are over the same splits, with as much of them held back.
    ("experiment", "set", "val_fraction", "splits", "seeds", "dropout", "p"),
    ("models", *_with_errors("log_likelihood", "rmse", "accuracy"), "learned_p", "converged", "steps"),
)
GRID_COST = OwnSheet(
    "grid_cost",
    ("experiment", "set", "dropout", "p", "split", "seed"),
    # Seconds are those of the whole job, which may have trained several models as one batch.
    ("nll", "accuracy", "rmse", "learned_p", "converged", "steps", "seconds", "replicas"),
)
METRICS = ("accuracy", "nll", "rmse", "ece", "calibration_rmse", "brier", "mutual_information", "epistemic_std")
# Column -> how well shifted data are told, and by what.
DETECTORS = {
    f"{name}_{by}": (name, by)
    for by in ("epistemic", "predictive", "confidence")
    for name in ("auroc", "aupr", "fpr95")
}
_RUN = ("experiment", "set", "dropout", "members", "p", "split", "seed", "part")
MASKS = OwnSheet("masks", (*_RUN, "mask", "samples"), (*METRICS, "nll_std", "repeats"))
SHIFT = OwnSheet("shift", (*_RUN, "samples", "shift", "severity"), (*METRICS, *DETECTORS, "mask"))
SHEETS = (TUNING, GRID_COST, MASKS, SHIFT)
