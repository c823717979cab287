"""Jobs of a sweep that a cluster takes away and gives back: Slurm starts them again, and they go on."""

from __future__ import annotations

import logging
import os
import signal
import time

from concrete_dropout.callbacks.stopping import ANNOUNCED
from concrete_dropout.cli.run_log import logging_to
from concrete_dropout.cli.stopped import Stopped

PATIENCE = 60  # seconds in which Slurm ends the other processes of a job that is requeued
_log = logging.getLogger(__name__)


def was_requeued() -> bool:
    """Whether Slurm has started this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0) > 0


def ask_for_requeue(stopped: Stopped) -> None:
    """Pass the signal on to whom it was meant for: submitit's handler puts the job back into the queue.

    It does so in the first process, and ends it or raises why not. The others are ended by Slurm: were they faster,
    the first might not come to it.
    """
    handler = signal.getsignal(stopped.signal_number)
    if stopped.signal_number not in ANNOUNCED or not callable(handler):
        return
    with logging_to(stopped.folder):
        _log.info("the checkpoint is written, the job goes back to the queue")
    handler(stopped.signal_number, None)
    time.sleep(PATIENCE)
