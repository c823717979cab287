"""Lightning callbacks: dropout probabilities, uncertainty, calibration, the record of a run, random state."""

from concrete_dropout.callbacks.calibration import CalibrationMonitor
from concrete_dropout.callbacks.checkpoints import AtomicCheckpointIO
from concrete_dropout.callbacks.probabilities import ProbabilityMonitor
from concrete_dropout.callbacks.progress import ProgressBar
from concrete_dropout.callbacks.rng import RandomState
from concrete_dropout.callbacks.run_record import RunRecord
from concrete_dropout.callbacks.uncertainty import UncertaintyMonitor

__all__ = [
    "AtomicCheckpointIO",
    "CalibrationMonitor",
    "ProbabilityMonitor",
    "ProgressBar",
    "RandomState",
    "RunRecord",
    "UncertaintyMonitor",
]
