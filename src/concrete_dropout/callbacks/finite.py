"""A loss that is no number any more ends training at once, before it gets into weights and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from concrete_dropout.errors import UserError

P_LOGIT = ".p_logit"


class FiniteLoss(pl.Callback):
    """Looks at every loss before its backward pass, and at all parameters before the checkpoint of an epoch.

    On a GPU, where looking means waiting, it looks at logging steps. Training in 16 bit is left alone: there the
    optimiser skips steps that overflow.
    """

    def __init__(self) -> None:
        self._batch: Any = None
        self._number = 0

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Keep the batch, which may be the reason."""
        self._batch, self._number = batch, batch_idx

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        """Stop where the loss is not finite.

        Raises:
            UserError: names step, batch and layer.
        """
        if not self._looks(trainer, loss) or bool(loss.isfinite()):
            return
        reason = culprit(pl_module, self._batch)
        raise UserError(
            f"the loss is {loss.item()} at step {trainer.global_step + 1} (epoch {trainer.current_epoch}, batch "
            f"{self._number}): {reason}. The checkpoints are from before; a smaller optim.lr or optim.p_lr, or "
            "trainer.gradient_clip_val=1, may keep it finite"
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The last step of an epoch has a finite loss, but may have had a gradient that was not.

        Raises:
            UserError: names the layer; comes before the checkpoint of this epoch.
        """
        reason = broken_parameter(pl_module.named_parameters())
        if reason is not None:
            raise UserError(
                f"weights are not finite after step {trainer.global_step} (epoch {trainer.current_epoch}): {reason}. "
                "The checkpoints are from before; a smaller optim.lr or optim.p_lr may keep them finite"
            )

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let go of the last batch."""
        self._batch = None

    def _looks(self, trainer: pl.Trainer, loss: Tensor) -> bool:
        if str(trainer.precision).startswith("16"):
            return False
        return loss.device.type == "cpu" or trainer.global_step % max(getattr(trainer, "log_every_n_steps", 1), 1) == 0


def culprit(task: nn.Module, batch: Any) -> str:
    """In words: the first parameter that is not finite, or what is wrong with the batch, or the first such output."""
    reason = broken_parameter(task.named_parameters())
    if reason is not None:
        return reason
    parts = [part for part in batch if isinstance(part, Tensor)] if isinstance(batch, (list, tuple)) else []
    for name, part in zip(("inputs", "targets"), parts, strict=False):
        if not bool(part.isfinite().all()):
            return f"the {name} of this batch are not finite"
    if parts:
        with first_broken_output(task) as found, torch.no_grad():
            task(parts[0])
        if found:
            return f"the output of {found[0]} is the first that is not finite"
    return "all layers are finite, the loss alone is not"


def broken_parameter(parameters: Iterable[tuple[str, Tensor]]) -> str | None:
    """In words: the first parameter that is not finite.

    >>> broken_parameter([("a.weight", torch.ones(2)), ("b.p_logit", torch.tensor(math.nan))])
    'p of b is not finite'
    """
    for name, value in parameters:
        if not bool(value.isfinite().all()):
            layer, _, kind = name.rpartition(".")
            return f"p of {layer} is not finite" if name.endswith(P_LOGIT) else f"{kind} of {layer} is not finite"
    return None


@contextmanager
def first_broken_output(task: nn.Module) -> Iterator[list[str]]:
    """Collects the names of innermost modules whose output is not finite, in the order of a pass."""
    found: list[str] = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            tensors = output if isinstance(output, (list, tuple)) else [output]
            if any(isinstance(tensor, Tensor) and not bool(tensor.isfinite().all()) for tensor in tensors):
                found.append(name)

        return hook

    leaves = [(name, module) for name, module in task.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(watch(name)) for name, module in leaves]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
