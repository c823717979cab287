"""Checkpoints that are whole or not there: written beside the old one, then put in its place."""

from __future__ import annotations

import os
import pickle  # nosec B403 # for the name of an error
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from concrete_dropout.errors import UserError
from concrete_dropout.runfolder import default_mode

StrPath = str | Path


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint to a temporary file and replaces the old one when it is on disk.

    A full disk or a kill leaves the previous checkpoint as it was. Loading takes tensors and plain containers only
    (``weights_only=True``), so that a checkpoint from elsewhere runs no code.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: StrPath, storage_options: Any | None = None) -> None:
        """Write ``checkpoint`` to ``path`` in one piece.

        Raises:
            UserError: the file cannot be written, for want of space or rights.
        """
        if storage_options is not None:
            raise TypeError("AtomicCheckpointIO writes local files and takes no storage_options")
        target = Path(path)
        temporary: str | None = None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, default_mode())
            os.replace(temporary, target)
        except BaseException as error:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            reason = _system_error(error)
            if reason is None:
                raise
            kept = "The previous checkpoint is intact" if target.is_file() else "There is no earlier one"
            raise UserError(
                f"cannot write the checkpoint {target}: {reason}. {kept}. Free some space, or choose another place "
                "with paths.output_dir=..."
            ) from error

    def load_checkpoint(
        self,
        path: StrPath,
        map_location: Callable[..., Any] | None = lambda storage, location: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a checkpoint.

        Args:
            path: of the file.
            map_location: as for ``torch.load``.
            weights_only: of no effect, it is always True.

        Raises:
            UserError: no such file, a truncated or damaged one, or one that holds more than tensors and containers.
        """
        if not Path(path).is_file():
            raise UserError(
                f"there is no checkpoint {path}; ckpt_path must name a file, as in RUN/checkpoints/last.ckpt"
            )
        try:
            loaded = torch.load(path, map_location=map_location, weights_only=True)
        except PermissionError as error:
            raise UserError(f"cannot read the checkpoint {path}: permission denied. Change its permissions") from error
        except pickle.UnpicklingError as error:
            if "Weights only load failed" not in str(error):
                raise _unreadable(path, error) from error
            # What torch says of it invites to switch the check off.
            raise UserError(
                f"the checkpoint {path} is refused: it holds more than tensors and plain containers, and loading that "
                "could run any code. Take one that python train.py has written"
            ) from error
        except Exception as error:  # a file of anything makes the unpickler fail in any way
            raise _unreadable(path, error) from error
        if not isinstance(loaded, dict):  # more cannot be asked: Lightning's launchers hand over bare state dicts too
            raise UserError(
                f"{path} is no checkpoint: it holds a {type(loaded).__name__}; give the path of a .ckpt file"
            )
        return loaded


def _unreadable(path: StrPath, error: Exception) -> UserError:
    first_line = str(error).strip().partition("\n")[0]
    return UserError(
        f"cannot read the checkpoint {path} ({type(error).__name__}: {first_line}). It is truncated, damaged "
        "or no checkpoint of this project; take another one of that run, as in RUN/checkpoints/best.ckpt"
    )


def _system_error(error: BaseException) -> str | None:
    """What the system said. ``torch.save`` hides it behind an error of its own writer that fails later."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror
        seen = seen.__cause__ or seen.__context__
    return str(error).partition("\n")[0] if isinstance(error, RuntimeError) and "writ" in str(error) else None
