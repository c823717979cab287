"""Where messages go during a run: warnings to the terminal, everything to run.log."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from concrete_dropout.cli.leftovers import LOG

OURS, LIGHTNING = "concrete_dropout", "pytorch_lightning"
run_log = logging.getLogger(OURS)

# Lightning's advice that does not fit data that are in memory, runs that go on in their own folder with a new epoch or
# start from another run's checkpoint, or training that ends before the first validation.
ADVICE = (
    r"The '.*dataloader' does not have many workers",
    r"The number of training batches .* is smaller than the logging interval",
    r"Checkpoint directory .* exists and is not empty",
    r".*isinstance.treespec, LeafSpec.*",
    r"The dirpath has changed from",
    r"You're resuming from a checkpoint that ended before the epoch ended",
    r"GPU available but not used",
    r"`ModelCheckpoint\(monitor='val/(nll|miou)'\)` could not find the monitored key",
)


@contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    """Warnings on the terminal, everything in run.log of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(folder / LOG, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    terminal.setLevel(logging.WARNING)
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in (OURS, LIGHTNING)}
    logging.getLogger(OURS).setLevel(logging.INFO)
    logging.getLogger(LIGHTNING).setLevel(logging.WARNING)
    for handler in (file, terminal):
        root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            for advice in ADVICE:
                warnings.filterwarnings("ignore", message=advice)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for handler in (file, terminal):
            root.removeHandler(handler)
            handler.close()
