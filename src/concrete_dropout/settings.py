"""Settings that arrive from a config: small frozen dataclasses that refuse bad values by the name of their key."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from concrete_dropout.dropout.kinds import KINDS, Kind
from concrete_dropout.dropout.layers import InitP, check_init_p
from concrete_dropout.dropout.objective import parameter_groups
from concrete_dropout.dropout.owners import LengthScaleMode, Patterns, as_patterns
from concrete_dropout.dropout.streams import MASKS, Mask
from concrete_dropout.dropout.swap import swap_dropout
from concrete_dropout.errors import UserError

Model = TypeVar("Model", bound=nn.Module)
OptimName = Literal["adam", "adamw", "sgd", "rmsprop"]
Schedule = Literal["constant", "linear", "cosine", "exponential"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DropoutSettings:
    """The config group ``dropout``: the flag, and what belongs to it.

    Attributes:
        kind: "none", "fixed" or "concrete".
        init_p: initial p of Concrete layers, or a range (low, high) to draw it from.
        p: of fixed layers; None keeps each layer's own.
        temperature: of Concrete layers.
        length_scale: l of the prior; also for fixed and no dropout, whose weights have the same prior.
        length_scale_mode: "constant" for l, "sqrt_fan_in" for l * sqrt(K_in).
        mask: "concrete" or "bernoulli", the masks of Concrete layers during evaluation.
        place: patterns of Linear and Conv layers to put a dropout in front of.
        include: patterns of dropouts to swap.
        exclude: patterns of dropouts to leave alone.
        inactive: patterns of dropouts that drop nothing, whatever the kind; their weights keep the prior.
        owners: {dropout: layers whose weight it masks}, where it cannot be found out.

    >>> DropoutSettings(init_p=1.5)
    Traceback (most recent call last):
    ValueError: dropout.init_p=1.5 must lie strictly between 0 and 1 (a learned p has a finite logit)
    """

    kind: Kind = "concrete"
    init_p: InitP = 0.1
    p: float | None = 0.1
    temperature: float = 0.1
    length_scale: float = 1e-2
    length_scale_mode: LengthScaleMode = "constant"
    mask: Mask = "concrete"
    place: Patterns | None = None
    include: Patterns | None = None
    exclude: Patterns | None = None
    inactive: Patterns | None = None
    owners: Mapping[str, Patterns] | None = None

    def __post_init__(self) -> None:
        _require_choice("dropout.kind", self.kind, KINDS)
        _require_choice("dropout.length_scale_mode", self.length_scale_mode, get_args(LengthScaleMode))
        _require_choice("dropout.mask", self.mask, MASKS)
        try:
            low, high = check_init_p(self.init_p)
        except ValueError as error:
            raise ValueError(f"dropout.{error}") from None
        object.__setattr__(self, "init_p", low if isinstance(self.init_p, int | float) else (low, high))
        _require("dropout.temperature", self.temperature, self.temperature > 0, "be above 0")
        _require("dropout.length_scale", self.length_scale, self.length_scale > 0, "be above 0")
        if self.p is not None:
            _require("dropout.p", self.p, 0 <= self.p < 1, "lie in [0, 1)")

    def apply(self, model: Model, example_input: object) -> Model:
        """Swap the dropouts of ``model`` in place, and return it.

        Raises:
            UserError: the model and these settings do not fit (nothing to swap, a pattern without a match, ...).
        """
        inactive = as_patterns(self.inactive or ())
        swap = partial(
            swap_dropout,
            length_scale=self.length_scale,
            length_scale_mode=self.length_scale_mode,
            example_input=example_input,
        )
        try:
            swap(
                model,
                self.kind,
                init_p=self.init_p,
                p=self.p if self.kind == "fixed" else None,
                temperature=self.temperature,
                place=as_patterns(self.place or ()),
                include=as_patterns(self.include or ()),
                exclude=(*as_patterns(self.exclude or ()), *inactive),
                owners=self.owners,
            )
            return swap(model, "none", include=inactive) if inactive else model
        except ValueError as error:
            raise UserError(f"dropout={self.kind} does not fit this model: {error}") from error


@dataclass(frozen=True)
class OptimSettings:
    """The config group ``optim``: the optimiser and its learning rate over the steps.

    Attributes:
        name: "adam", "adamw", "sgd" (with momentum 0.9) or "rmsprop" (with alpha 0.9, as for the Tiramisu).
        lr: the learning rate.
        p_lr: of the p logits; ``lr`` where it is None.
        weight_decay: of everything but the p logits, on top of the prior.
        schedule: "constant"; down to 0 at the last step: "linear" or "cosine"; or "exponential", by ``decay``.
        hold: the part of the steps with the full learning rate before it goes down linearly or as a cosine.
        decay: what the learning rate is multiplied with after every epoch under "exponential".
    """

    name: OptimName = "adam"
    lr: float = 1e-3
    p_lr: float | None = None
    weight_decay: float = 0.0
    schedule: Schedule = "linear"
    hold: float = 0.5
    decay: float = 0.995

    def __post_init__(self) -> None:
        _require_choice("optim.name", self.name, get_args(OptimName))
        _require_choice("optim.schedule", self.schedule, get_args(Schedule))
        _require("optim.lr", self.lr, self.lr > 0, "be above 0")
        if self.p_lr is not None:  # 0 keeps p where it starts
            _require("optim.p_lr", self.p_lr, self.p_lr >= 0, "be 0 or more")
        _require("optim.weight_decay", self.weight_decay, self.weight_decay >= 0, "be 0 or more")
        _require("optim.hold", self.hold, 0 <= self.hold <= 1, "lie in [0, 1]")
        _require("optim.decay", self.decay, 0 < self.decay <= 1, "lie in (0, 1]")

    def build(
        self,
        model: nn.Module | Iterable[Tensor] | Iterable[dict[str, Any]],
        num_steps: float,
        steps_per_epoch: float = math.inf,
    ) -> tuple[Optimizer, LambdaLR]:
        """The optimiser and its scheduler, which goes on by one at every step.

        Args:
            model: a module, whose p logits become a group of their own; or parameters or groups for ``torch.optim``.
            num_steps: of the whole training; infinite or below 1 where it is unknown, which keeps the rate constant.
            steps_per_epoch: for the exponential schedule.
        """
        if isinstance(model, nn.Module):
            groups: list[Any] = parameter_groups(model, lr=self.lr, p_lr=self.p_lr, weight_decay=self.weight_decay)
        else:
            groups = list(model)
        optimizer = _OPTIMIZERS[self.name](groups, lr=self.lr, weight_decay=self.weight_decay)
        return optimizer, LambdaLR(optimizer, self.factor(num_steps, steps_per_epoch))

    def factor(self, num_steps: float, steps_per_epoch: float = math.inf) -> Callable[[int], float]:
        """What the learning rate is multiplied with at step 0, 1, ..., num_steps - 1.

        >>> factor = OptimSettings(schedule="linear", hold=0.5).factor(8)
        >>> [factor(step) for step in range(9)]
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
        """
        if self.schedule == "exponential":
            return partial(_decayed, decay=self.decay, steps_per_epoch=steps_per_epoch)
        unlimited = not (math.isfinite(num_steps) and num_steps >= 1)
        if unlimited and self.schedule != "constant":
            _log.warning(
                "the number of training steps is unknown: the learning rate stays constant instead of "
                "optim.schedule=%s; trainer.max_steps or trainer.max_epochs would set it",
                self.schedule,
            )
        if unlimited or self.schedule == "constant" or self.hold == 1:
            return _unchanged
        return partial(_annealed, schedule=self.schedule, hold=self.hold, num_steps=num_steps)


def _unchanged(step: int) -> float:
    return 1.0


def _decayed(step: int, *, decay: float, steps_per_epoch: float) -> float:
    return float(decay ** (step // steps_per_epoch))


def _annealed(step: int, *, schedule: str, hold: float, num_steps: float) -> float:
    progress = (step / num_steps - hold) / (1 - hold)
    progress = min(1.0, max(0.0, progress))
    return 1 - progress if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress))


def _adam(kind: type[torch.optim.Adam]) -> Callable[..., Optimizer]:
    """Adam, with torch's fused kernel on the CPU, where the default is a loop over parameters.

    On CUDA the default is fast already, and the fused one cannot be combined with clipping in fp16.
    """

    def build(groups: list[Any], **options: Any) -> Optimizer:
        parameters = [q for group in groups for q in (group["params"] if isinstance(group, dict) else [group])]
        fused = all(q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64) for q in parameters)
        return kind(groups, fused=fused or None, **options)

    return build


_OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": _adam(torch.optim.Adam),
    "adamw": _adam(torch.optim.AdamW),
    "sgd": partial(torch.optim.SGD, momentum=0.9),
    "rmsprop": partial(torch.optim.RMSprop, alpha=0.9),
}


def _require(key: str, value: float, holds: bool, rule: str) -> None:
    if not (holds and math.isfinite(value)):
        raise ValueError(f"{key}={value!r} must {rule}")


def _require_choice(key: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise ValueError(f"{key}={value!r} must be one of {', '.join(choices)}")
