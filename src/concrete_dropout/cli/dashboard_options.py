"""What the commands of the dashboard share: refusals in one message, and where the runs are."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn

from concrete_dropout.errors import UserError


class Parser(argparse.ArgumentParser):
    """Refuses in one message, as the other commands do."""

    def error(self, message: str) -> NoReturn:
        """The hook of argparse."""
        raise UserError(f"{message}. See {self.prog} --help")


def runs_folder(given: Path | None) -> Path:
    """The folder with the runs: the given one, else that of train.py."""
    folder = given or Path(os.environ.get("OUTPUT_DIR") or "outputs")
    if given is None and not folder.is_dir():
        raise UserError(f"there is no folder {folder} yet: python train.py makes it, or name another one")
    return folder
