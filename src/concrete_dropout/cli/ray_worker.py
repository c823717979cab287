"""What a worker of a Ray cluster does first, see conf/hydra/launcher/ray.yaml. No torch here."""

from __future__ import annotations

import os

FOLDER = "CONCRETE_DROPOUT_CWD"


def enter_folder() -> None:
    """Go to the folder in which the sweep was started.

    A worker starts where its cluster was started, and would look for ``data`` and make ``outputs`` there.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
