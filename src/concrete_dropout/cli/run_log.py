"""Where messages go during a run: warnings to the terminal, everything to run.log."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

from concrete_dropout.cli.leftovers import LOG
from concrete_dropout.runfolder import own_file

OURS, LIGHTNING, FABRIC = "concrete_dropout", "pytorch_lightning", "lightning_fabric"
FILE_ONLY = "file_only"  # marks a record that the terminal need not show
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
    r"The `srun` command is available",
    r"`ModelCheckpoint\(monitor='val/(nll|miou)'\)` could not find the monitored key",
)


@contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    """Warnings on the terminal, everything in run.log of the folder; ranks above 0 say nothing but errors."""
    folder.mkdir(parents=True, exist_ok=True)
    is_first = getattr(rank_zero_only, "rank", 0) in (None, 0)
    file = logging.FileHandler(own_file(folder, LOG), encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    terminal.setLevel(logging.WARNING if is_first else logging.ERROR)
    terminal.addFilter(lambda record: not getattr(record, FILE_ONLY, False))
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in (OURS, LIGHTNING, FABRIC)}
    logging.getLogger(OURS).setLevel(logging.INFO)
    for name in (LIGHTNING, FABRIC):
        logging.getLogger(name).setLevel(logging.WARNING)
    handlers: list[logging.Handler] = [file, terminal] if is_first else [terminal]
    for handler in handlers:
        root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            if not is_first:
                warnings.simplefilter("ignore")
            for advice in ADVICE:
                warnings.filterwarnings("ignore", message=advice)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
