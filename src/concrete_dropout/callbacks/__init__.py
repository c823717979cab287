"""Lightning callbacks: dropout probabilities, uncertainty, calibration, pictures, the record of a run, random state."""

from concrete_dropout.callbacks.calibration import CalibrationMonitor
from concrete_dropout.callbacks.checkpoints import AtomicCheckpointIO
from concrete_dropout.callbacks.classes import ClassMonitor
from concrete_dropout.callbacks.finetuning import FineTuning
from concrete_dropout.callbacks.gallery import GalleryMonitor
from concrete_dropout.callbacks.maps import MapsMonitor
from concrete_dropout.callbacks.probabilities import ProbabilityMonitor
from concrete_dropout.callbacks.progress import ProgressBar
from concrete_dropout.callbacks.rng import RandomState
from concrete_dropout.callbacks.run_record import RunRecord
from concrete_dropout.callbacks.selective import SelectiveMonitor
from concrete_dropout.callbacks.uncertainty import UncertaintyMonitor

__all__ = [
    "AtomicCheckpointIO",
    "CalibrationMonitor",
    "ClassMonitor",
    "FineTuning",
    "GalleryMonitor",
    "MapsMonitor",
    "ProbabilityMonitor",
    "ProgressBar",
    "RandomState",
    "RunRecord",
    "SelectiveMonitor",
    "UncertaintyMonitor",
]
