"""The state of the random generators: different on every rank, kept in checkpoints, restored on resume.

Lightning does neither: ``seed_everything`` gives all ranks the same generator, hence the same masks, and a
resumed run draws the first epoch's batches and masks once more.
"""

from __future__ import annotations

import hashlib
import logging
import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.trainer.states import TrainerFn, TrainerStatus
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor

log = logging.getLogger(__name__)
KEY = "random_state"

# Tensors, numbers and containers only: it must load with weights_only=True.
State = dict[str, Any]


def get_state(device: torch.device | None = None) -> State:
    """The generators of Python, NumPy and torch, and that of a CUDA device."""
    version, words, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    assert isinstance(numpy_state, dict)
    state: State = {
        "python": {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss},
        "numpy": {
            "key": torch.from_numpy(numpy_state["state"]["key"].astype(np.int64)),
            "pos": int(numpy_state["state"]["pos"]),
            "has_gauss": int(numpy_state["has_gauss"]),
            "gauss": float(numpy_state["gauss"]),
        },
        "torch": torch.get_rng_state(),
    }
    if device is not None and device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_state(state: State, device: torch.device | None = None) -> None:
    """Put the generators where ``get_state`` found them."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    numpy_state = state["numpy"]
    np.random.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": numpy_state["key"].numpy().astype(np.uint32), "pos": numpy_state["pos"]},
            "has_gauss": numpy_state["has_gauss"],
            "gauss": numpy_state["gauss"],
        }
    )
    torch.set_rng_state(state["torch"].cpu())
    if device is not None and device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)


def rank_seed(torch_state: Tensor, rank: int) -> int:
    """A seed that depends on the state and on the rank.

    A hash rather than seed + rank: rank 1 of seed 0 must not draw the masks of rank 0 of seed 1.
    """
    content = torch_state.cpu().numpy().tobytes() + rank.to_bytes(8, "little")
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little")


class RandomState(pl.Callback):
    """Gives every rank its own stream of masks, and lets a resumed run continue the streams of the interrupted one.

    From a checkpoint of the end of an epoch the resumed run is bit-identical to one that was never interrupted.
    From one in the middle of an epoch it is where the data module keeps the order of the epoch (``BatchedData``);
    otherwise the rest of the epoch is shuffled anew, as Lightning does with loaders that keep no state.

    On a new fit rank 0 keeps its generator; torch's generator of every other rank is seeded from it and the rank.
    Samplers that draw from torch's global generator would then differ between ranks: use seeded ones.
    """

    def __init__(self) -> None:
        self._resumed = False
        self._after_validation: State | None = None
        self._stopped_together = False

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Offset the generator of ranks above 0, unless a checkpoint has set it."""
        if not self._resumed and trainer.global_rank > 0:
            torch.manual_seed(rank_seed(torch.get_rng_state(), trainer.global_rank))

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Store the state of every rank."""
        own = get_state(trainer.strategy.root_device)
        states: list[Any] = [own]
        # After an error the other ranks may be elsewhere, and would never answer.
        healthy = trainer.state.status != TrainerStatus.INTERRUPTED or self._stopped_together
        if healthy and trainer.world_size > 1 and dist.is_available() and dist.is_initialized():
            states = [None] * trainer.world_size
            dist.all_gather_object(states, own)
        checkpoint[KEY] = {"ranks": states, "validating": bool(trainer.validating)}

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """SIGTERM stops all ranks between the same two steps (``StopOnSignal``)."""
        self._stopped_together = isinstance(exception, SIGTERMException)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Restore the state when a fit is resumed.

        This is before the training loader's iterator is made, which draws from the generator as it did in the
        run that went on.
        """
        if trainer.state.fn != TrainerFn.FITTING:
            return
        saved = checkpoint.get(KEY)
        if saved is None:
            log.warning("the checkpoint has no random state: the resumed run will differ from an uninterrupted one.")
            return
        self._resumed = True
        state = self._own(saved["ranks"], trainer)
        if saved["validating"]:
            self._after_validation = state

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore once more after a checkpoint that was saved at the end of validation.

        Lightning then first closes the epoch that the checkpoint belongs to, and makes the training iterator twice.
        """
        if self._after_validation is not None:
            set_state(self._after_validation, trainer.strategy.root_device)
            self._after_validation = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Training goes on in the middle of an epoch: nothing must be restored after this."""
        self._after_validation = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Another fit starts afresh."""
        self._resumed = False

    def _own(self, states: list[State], trainer: pl.Trainer) -> State:
        device, rank = trainer.strategy.root_device, trainer.global_rank
        if len(states) != trainer.world_size and rank == 0:
            log.warning(
                "the checkpoint has the random state of %d process(es), and %d are running: the resumed run will "
                "differ from an uninterrupted one.",
                len(states),
                trainer.world_size,
            )
        set_state(states[min(rank, len(states) - 1)], device)
        if rank >= len(states):
            torch.manual_seed(rank_seed(torch.get_rng_state(), rank))
        return get_state(device)
