"""Where messages go during a run: warnings to the terminal, everything to run.log."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

from concrete_dropout.cli.leftovers import LOG
from concrete_dropout.runfolder import own_file

OURS, LIGHTNING, FABRIC = "concrete_dropout", "pytorch_lightning", "lightning_fabric"
FILE_ONLY = "file_only"  # marks a record that the terminal need not show
LARGEST_LOG, KEPT_LOGS = 5_000_000, 3  # bytes of run.log, and older ones beside it: run.log.1 and so on
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


class LogFile(RotatingFileHandler):
    """run.log, of bounded size; a disk that cannot take it is told once, and is no reason to end a run.

    Args:
        path: of the file.
        largest: bytes from which on a new one is begun.
        kept: number of older ones.
    """

    def __init__(self, path: Path, largest: int = LARGEST_LOG, kept: int = KEPT_LOGS) -> None:
        super().__init__(path, maxBytes=largest, backupCount=kept, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the name is logging's)
        """Say what is wrong with the disk; anything else is a bug."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            print(f"WARNING: {self.baseFilename} cannot be written ({error.strerror})", file=sys.stderr)

    def close(self) -> None:
        """What is left in memory may not fit on a full disk either."""
        try:
            super().close()
        except OSError:
            self.stream = None


@contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    """Warnings on the terminal, everything in run.log of the folder; ranks above 0 say nothing but errors."""
    folder.mkdir(parents=True, exist_ok=True)
    is_first = getattr(rank_zero_only, "rank", 0) in (None, 0)
    file = LogFile(own_file(folder, LOG))
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
