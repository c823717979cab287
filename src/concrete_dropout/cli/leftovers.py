"""What a run that never started may not leave behind."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from concrete_dropout.folderlock import LOCK, is_taken
from concrete_dropout.runfolder import CONFIG, CONFIG_DIFF, RUN

LOG = "run.log"
HYDRA = ".hydra"
STARTED = (RUN, "study.json", "sweep.json")  # a folder with one of these is a run's, a study's or a sweep's


def discard(folder: Path, output_dir: Path) -> None:
    """Remove what a refused command has written, and folders that are empty then; never anything else.

    Args:
        folder: of the run.
        output_dir: of all runs: the uppermost folder to remove.
    """
    if any((folder / name).exists() for name in STARTED) or is_taken(folder):
        return
    shutil.rmtree(folder / HYDRA, ignore_errors=True)
    for name in (CONFIG, CONFIG_DIFF, LOG, LOCK):  # a lock of our own: nobody needs to wait for it
        (folder / name).unlink(missing_ok=True)
    top = output_dir.absolute()
    with suppress(OSError):  # not empty: something else is in there
        folder.rmdir()
        for parent in folder.absolute().parents:
            if not parent.is_relative_to(top):
                break
            parent.rmdir()
