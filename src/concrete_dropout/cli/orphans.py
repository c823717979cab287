"""Jobs that joblib runs in other processes: they do not outlive the sweep that has started them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hydra.core.hydra_config import HydraConfig

from concrete_dropout.cli.jobs import JobRecords

EVERY = 1.0  # seconds
GRACE = 20.0  # seconds for a checkpoint


@contextmanager
def ending_with_the_sweep() -> Iterator[None]:
    """Stop a job, as SIGTERM does, when the process of its sweep is gone: one that was killed can tell nobody.

    Only joblib's workers are watched. Other launchers give their jobs away, and a cluster has its own view of them.
    """
    if JobRecords.sweep is not None or "joblib" not in str(HydraConfig.get().launcher.get("_target_", "")).lower():
        yield
        return
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(os.getppid(), done), name="orphan", daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


def _watch(parent: int, done: threading.Event) -> None:
    while not done.wait(EVERY):
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
            if not done.wait(GRACE):
                os.kill(os.getpid(), signal.SIGKILL)
            return
