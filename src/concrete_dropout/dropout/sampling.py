"""Monte Carlo sampling: only dropout becomes stochastic, everything else stays in eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

from concrete_dropout.dropout.kinds import is_channelwise, is_unbatched, kind_of, plain_class
from concrete_dropout.dropout.modes import evaluating, override_forward
from concrete_dropout.dropout.streams import Block, Mask, MaskStreams, block_rows, cut_rows


@contextmanager
def mc_sampling(
    model: nn.Module,
    seed: int | None = None,
    frozen_masks: bool = False,
    *,
    draws: int = 1,
    mask: Mask = "concrete",
) -> Iterator[MaskSampler]:
    """Context in which every call of ``model`` is a stochastic pass; modes are restored afterwards, also on error.

    Args:
        model: its dropout layers with p > 0 become active. BatchNorm and all else are in eval mode.
        seed: the n-th call under the same seed has the same masks; drawn from torch's default generator by default.
        frozen_masks: draw each mask once and reuse it over rows and calls: one function draw for a whole data set or
            rollout. ``sampler.resample()`` goes on to the next draw.
        draws: with frozen masks, the number of function draws in a batch. Its rows are divided into as many equal
            parts, the first draw's first; one per row gives every particle of a rollout its own function.
        mask: "concrete" (soft, as in training) or "bernoulli" (hard, at the learned p) for Concrete layers.

    Gradients flow to inputs and weights, not to p. Layers without a Concrete counterpart (AlphaDropout) become active
    as well, but draw from torch's default generator.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1)).eval()
    >>> x = torch.ones(4, 2)
    >>> with mc_sampling(model, seed=0), torch.no_grad():
    ...     first, second = model(x), model(x)
    >>> bool((first != second).any()), bool((model(x) == model(x)).all())
    (True, True)
    """
    if draws != 1 and not frozen_masks:
        raise ValueError(f"draws={draws} needs frozen_masks=True: otherwise every row has its own mask anyway")
    base = int(torch.randint(2**62, ()).item()) if seed is None else seed
    sampler = MaskSampler(MaskStreams(base, mask), frozen=frozen_masks, draws=draws)
    with evaluating(model), no_fused_transformers(), sampler.attached(model):
        yield sampler


@contextmanager
def no_fused_transformers() -> Iterator[None]:
    """In eval mode torch runs whole transformer layers as one kernel, past their dropouts: not while sampling."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def active_dropouts(model: nn.Module) -> dict[str, _DropoutNd]:
    """Dropout layers that make the model stochastic, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, _DropoutNd) and kind_of(m) != "none"}


class MaskSampler:
    """Stands in for the forward of dropout layers while attached to a model.

    Args:
        streams: where masks come from.
        frozen: reuse masks over rows and calls.
        draws: function draws in a batch, the leading division of its rows.
    """

    def __init__(self, streams: MaskStreams, *, frozen: bool = False, draws: int = 1) -> None:
        if draws < 1:
            raise ValueError(f"draws={draws} must be at least 1")
        self._streams = streams
        self._frozen = frozen
        self._samples = range(draws)  # indices of the samples that the next pass draws, one part of the batch each
        self._pinned = False
        self._first_row = 0
        self._input_rows = 0  # of one sample
        self._block_rows = 1
        self._calls: dict[int, int] = {}
        self._calls_outside: dict[int, int] = {}
        self._inside = False
        self._batched = False  # whether the model's input has more than one dimension
        self._kept: dict[tuple[Any, ...], Tensor] = {}
        self.largest_input = 0  # elements of one sample at the widest dropout so far
        self.largest_mask = 0  # the same of its mask, which has one element per channel in channel-wise dropout

    def resample(self) -> None:
        """Draw new masks from the next pass on. Without frozen masks every pass does so by itself."""
        self._kept.clear()
        self._samples = range(self._samples.stop, self._samples.stop + len(self._samples))

    def pin(self, samples: range, x: Tensor, first_row: int = 0) -> None:
        """Fix the samples of the coming passes, and the rows of the whole input that ``x`` holds for each of them.

        For drivers that cut a prediction into chunks; passes no longer go on to the next sample by themselves.
        """
        if self._frozen and samples != self._samples:
            self._kept.clear()
        self._samples, self._pinned = samples, True
        self._first_row, self._input_rows, self._block_rows = first_row, x.shape[0], block_rows(x)

    @contextmanager
    def attached(self, model: nn.Module) -> Iterator[None]:
        """Take over the active dropouts of ``model``, and watch where its passes begin and end."""
        compiled = any(hasattr(module, "_orig_mod") for module in model.modules())
        drop = torch.compiler.disable(self._drop) if compiled else self._drop
        with ExitStack() as stack:
            stack.callback(model.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
            stack.callback(model.register_forward_hook(self._end, always_call=True).remove)
            for index, layer in enumerate(active_dropouts(model).values()):
                layer.training = True
                if plain_class(layer) is not None:  # others (AlphaDropout) draw from torch's default generator
                    override_forward(stack, layer, partial(drop, index, layer))
            yield

    def _begin(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        self._inside = True
        self._calls.clear()
        leaves = args if len(args) == 1 and isinstance(args[0], Tensor) else tree_leaves((args, kwargs))
        x = next((leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim() > 0), None)
        if x is None:
            return
        self._batched = x.dim() > 1
        if not self._pinned:
            self._input_rows, self._block_rows = x.shape[0] // len(self._samples), block_rows(x)

    def _end(self, model: nn.Module, args: Any, out: Any) -> None:
        self._inside = False
        drew = bool(self._calls)  # not so if another sampler was at work inside of this one's context
        self._calls.clear()
        if drew and not self._frozen and not self._pinned:
            self.resample()

    def _call_number(self, index: int) -> int:
        """Which call of a layer within the pass this is.

        Outside of a pass (somebody calls a part of the model), a frozen layer is in its first call, and others are
        in one that no pass has.
        """
        if not self._inside and self._frozen:
            return 0
        counter = self._calls if self._inside else self._calls_outside
        before = counter.get(index, 0)
        counter[index] = before + 1
        return before if self._inside else -counter[index]

    def _drop(self, index: int, layer: _DropoutNd, input: Tensor) -> Tensor:
        """Mask an input (S * rows, ...), S being the number of samples in the pass."""
        num_samples = len(self._samples)
        if input.dim() < 2:  # one value per row, or the features of a single row
            per_row = self._batched and input.shape == (num_samples * self._input_rows,)
            matrix = input.reshape((-1, 1) if per_row else (1, -1))
            return self._drop(index, layer, matrix).reshape(input.shape)
        channelwise = is_channelwise(layer)
        if channelwise and is_unbatched(layer, input):
            return self._drop(index, layer, input.unsqueeze(0)).squeeze(0)
        rows, left = divmod(input.shape[0], num_samples)
        if left:
            raise ValueError(f"a batch of {input.shape[0]} rows cannot be divided into draws={num_samples} equal parts")
        elements = input.numel() // num_samples
        self.largest_input = max(self.largest_input, elements)
        self.largest_mask = max(self.largest_mask, rows * input.shape[1] if channelwise else elements)
        call, inside = self._call_number(index), not (channelwise or torch.is_grad_enabled())
        if inside and not self._frozen:
            masked = self._streams.masked(layer, input, (index, call), self._samples, self._first_mask_row(rows))
            if masked is not None:
                return masked
        x = input.unflatten(0, (num_samples, -1))  # (S, rows, ...)
        if self._frozen:
            return (x * self._frozen_mask(index, call, layer, x[0])).flatten(0, 1)
        # A mask for this call alone: where no gradient needs it, its memory can hold the result.
        mask = self._streams.draw(
            layer, x[0], (index, call), self._samples, self._blocks(x.shape[1]), times=x if inside else None
        )
        return (mask if inside else x * mask).flatten(0, 1)

    def _frozen_mask(self, index: int, call: int, layer: _DropoutNd, x: Tensor) -> Tensor:
        key = (index, call, x.shape[1:], x.dtype, x.device)
        if key not in self._kept:
            with torch.inference_mode(False):  # a kept mask may be used for gradients later
                self._kept[key] = self._streams.draw(layer, x, (index, call), self._samples, [Block(0, 0, 1, 1)])
        return self._kept[key]

    def _first_mask_row(self, rows: int) -> int:
        """Number of the first of a layer's rows, which are as many as the model's, or a multiple (batch * windows)."""
        if self._first_row == 0:
            return 0
        divides = self._input_rows > 0 and rows % self._input_rows == 0
        return self._first_row * (rows // self._input_rows if divides else rows)

    def _blocks(self, rows: int) -> tuple[Block, ...]:
        """Streams for the rows of a layer's input."""
        first = self._first_mask_row(rows)
        if self._input_rows == 0 or rows % self._input_rows:
            return (Block(self._first_row, 0, rows, rows),)
        return cut_rows(first, rows, self._block_rows * (rows // self._input_rows))
