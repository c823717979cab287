"""Many stochastic passes over one batch, cut into chunks of rows and samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from concrete_dropout.dropout.modes import evaluating
from concrete_dropout.dropout.prefix import DeviationError, PrefixCache
from concrete_dropout.dropout.sampling import MaskSampler, active_dropouts, mc_sampling
from concrete_dropout.dropout.streams import Mask

# Batching samples saves overhead per call. It stops paying once the activations of a batch leave the cache, and earlier
# where masks are as large as they are. A batch takes no more memory than 50 samples' outputs, and what is made of them,
# would take side by side, as in a plain loop; a few pages are free.
BATCHED_ELEMENTS = 1 << 20
BATCHED_MASKS = 1 << 17
FREE_ELEMENTS = 7 << 9
OUTPUTS_SIDE_BY_SIDE = 3 * 50
FEW_SAMPLES = 6  # up to these it does not pay: the first batch is checked by a pass more
BYTES_PER_BATCHED_ELEMENT = 32  # at the widest dropout: its input, mask and output, and the same of its neighbours
DEFAULT_MEMORY = 1 << 30
PILOT_ELEMENTS, PILOT_ROWS = 1 << 18, 1024  # inputs below both are not worth a pass to measure their memory


def stochastic_passes(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    samples: int,
    *,
    seed: int | None = None,
    mask: Mask = "concrete",
    frozen_masks: bool = False,
    batch_rows: int | None = None,
    batch_samples: int | None = None,
    memory_budget: int = DEFAULT_MEMORY,
) -> Iterator[tuple[slice, Any]]:
    """Run ``samples`` stochastic passes without gradients; yields (rows, outputs of some samples on those rows).

    Args:
        model: called as ``model(*inputs)``; rows (dimension 0) must not depend on each other in eval mode.
        inputs: tensors with the same number of rows.
        samples: at least 1. A model without active dropout makes one pass, however many are asked for.
        seed: the same seed gives the same masks, whichever way the work is cut.
        mask: "concrete" or "bernoulli".
        frozen_masks: one mask per sample for all rows.
        batch_rows: rows per pass; as many as ``memory_budget`` allows by default.
        batch_samples: samples per pass at the most, as far as ``memory_budget`` allows; chosen by the size of the
            network by default.
        memory_budget: bytes of activations that a pass may take.

    Yields:
        The slice of rows, and the model's output with every tensor as (S, rows, ...). All samples of one
        slice come before the next slice.
    """
    model = getattr(model, "_orig_mod", model)  # a compiled model would be compiled again for every pass
    with torch.inference_mode(False), torch.no_grad(), mc_sampling(model, seed, frozen_masks, mask=mask) as sampler:
        inputs = tuple(tensor.clone() if tensor.is_inference() else tensor for tensor in inputs)
        dropouts = tuple(active_dropouts(model))
        if not dropouts:
            samples = 1
        step = batch_rows or _affordable_rows(model, inputs, sampler, memory_budget)
        for start in range(0, inputs[0].shape[0], step):
            chunk = tuple(tensor[start : start + step] for tensor in inputs)
            rows = slice(start, start + chunk[0].shape[0])
            passes = _SamplesOfRows(model, chunk, sampler, start, dropouts)
            for output in passes.outputs(samples, batch_samples, memory_budget):
                yield rows, output


def deterministic_pass(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """One pass with dropout inactive, as a single sample: tensors are (1, rows, ...)."""
    with torch.no_grad(), evaluating(model):
        return _split_samples(model(*inputs), 1, inputs[0].shape[0])


_Dropouts = WeakKeyDictionary[nn.Module, tuple[str, ...]]  # a model's active dropouts


class _SamplesOfRows:
    """All samples of some rows: with the prefix cached, several to a pass where that is faster, else one by one.

    Watching a pass for its prefix takes time. A model that had none in front of the same dropouts is not watched again,
    but for its first pass of several samples, which must not decide by their values.
    """

    _without_prefix: ClassVar[_Dropouts] = WeakKeyDictionary()
    _takes_several: ClassVar[_Dropouts] = WeakKeyDictionary()

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple[Tensor, ...],
        sampler: MaskSampler,
        first_row: int,
        dropouts: tuple[str, ...],
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._sampler = sampler
        self._first_row = first_row
        self._dropouts = dropouts
        self._cache: PrefixCache | None = None
        self._watch = ExitStack()  # what the cache has put into the model's place
        self._settled = self._without_prefix.get(model) == dropouts

    def outputs(self, samples: int, batch_samples: int | None, memory_budget: int) -> Iterator[Any]:
        """Outputs with tensors (S, rows, ...), S samples of ``samples`` at a time."""
        self._sampler.largest_input = self._sampler.largest_mask = 0
        with self._watch:
            if samples > 1 and not self._settled:
                self._start_watching()
            first = self._one(0)
            yield first
            best = self._best_width(_bytes(first), memory_budget) if samples > FEW_SAMPLES else 1
            del first
            start, width = 1, min(batch_samples or best, samples - 1, self._most(memory_budget))
            if self._settled and width > 1 and self._takes_several.get(self._model) != self._dropouts:
                self._start_watching()
            while start < samples and width > 1:
                stop = min(start + width, samples)
                window = self._several(range(start, stop))
                # The first time, compare: rows may not be in front, or depend on each other.
                if window is None or (start == 1 and not _close(_first_sample(window), self._one(start))):
                    break
                yield window
                start = stop
                if self._settle():
                    self._takes_several[self._model] = self._dropouts
            self._settle()
            for sample in range(start, samples):
                yield self._one(sample)

    def _best_width(self, output_bytes: int, memory_budget: int) -> int:
        """How many samples to a pass, judged by the widest dropout of the first one."""
        widest = max(1, self._sampler.largest_input)
        kept = min(OUTPUTS_SIDE_BY_SIDE * output_bytes, memory_budget) // BYTES_PER_BATCHED_ELEMENT
        by_input = min(BATCHED_ELEMENTS, max(FREE_ELEMENTS, kept)) // widest
        return max(1, min(by_input, BATCHED_MASKS // max(1, self._sampler.largest_mask)))

    def _most(self, memory_budget: int) -> int:
        """How many samples to a pass the budget allows, whatever was asked for."""
        return max(1, memory_budget // (BYTES_PER_BATCHED_ELEMENT * max(1, self._sampler.largest_input)))

    def _start_watching(self) -> None:
        self._settled = False
        self._cache = PrefixCache(self._model, self._inputs)
        self._watch.enter_context(self._cache.attached())

    def _settle(self) -> bool:
        """Watch the passes no longer if there was nothing to note in the first ones; whether that is so."""
        if self._cache is not None and self._cache.is_empty:
            self._settled = True
            self._cache = None
            self._watch.close()
            self._without_prefix[self._model] = self._dropouts
        return self._settled

    def _one(self, sample: int) -> Any:
        """A single sample; without the cache from the first failure on."""
        self._sampler.pin(range(sample, sample + 1), self._inputs[0], self._first_row)
        rows = self._inputs[0].shape[0]
        if self._cache is not None:
            try:
                return _split_samples(self._cached_pass(1), 1, rows)
            except (Exception, DeviationError):
                self._cache.suspend()
                self._cache = None
        return _split_samples(self._model(*self._inputs), 1, rows)

    def _several(self, samples: range) -> Any:
        """Samples in one pass; None where the network does not take them so."""
        if self._cache is None and not self._settled:
            return None
        self._sampler.pin(samples, self._inputs[0], self._first_row)
        try:
            return _split_samples(self._cached_pass(len(samples)), len(samples), self._inputs[0].shape[0])
        except (Exception, DeviationError):
            return None

    def _cached_pass(self, copies: int) -> Any:
        if self._cache is None:
            return self._model(*(_repeated(tensor, copies) for tensor in self._inputs))
        inputs = self._cache.tiled_inputs(copies)
        with self._cache:
            return self._model(*inputs)


def _repeated(tensor: Tensor, copies: int) -> Tensor:
    """(rows, ...) -> (copies * rows, ...)."""
    return tensor if copies == 1 else tensor.expand(copies, *tensor.shape).flatten(0, 1)


def _split_samples(output: Any, samples: int, rows: int) -> Any:
    """Tensors (S * rows, ...) -> (S, rows, ...)."""

    def split(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != samples * rows:
            raise ValueError(f"the model's output {tuple(tensor.shape)} must have one row per input row ({rows})")
        return tensor.view(samples, rows, *tensor.shape[1:])  # unflatten() takes longer

    return split(output) if isinstance(output, Tensor) else tree_map_only(Tensor, split, output)


def _bytes(output: Any) -> int:
    leaves = (output,) if isinstance(output, Tensor) else tree_leaves(output)
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor))


def _first_sample(output: Any) -> Any:
    return tree_map_only(Tensor, lambda tensor: tensor[:1], output)


def _close(output: Any, reference: Any) -> bool:
    """Whether two outputs agree up to the rounding of another order of summation."""
    pairs = zip(tree_leaves(output), tree_leaves(reference), strict=True)
    return all(
        torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-3 * float(b.abs().double().mean()), equal_nan=True)
        for a, b in pairs
        if isinstance(a, Tensor)
    )


def _affordable_rows(model: nn.Module, inputs: tuple[Tensor, ...], sampler: MaskSampler, budget: int) -> int:
    """Rows whose activations fit the budget, judged by a pass over one row if the input is large."""
    rows = inputs[0].shape[0]
    if rows < PILOT_ROWS and sum(tensor.numel() for tensor in inputs) < PILOT_ELEMENTS:
        return max(rows, 1)
    taken = 0

    def add(module: nn.Module, args: Any, out: Any) -> None:
        nonlocal taken
        taken += sum(leaf.nbytes for leaf in tree_leaves(out) if isinstance(leaf, Tensor))

    hooks = [m.register_forward_hook(add) for m in model.modules() if not any(True for _ in m.children())]
    try:
        row = tuple(tensor[:1] for tensor in inputs)
        sampler.pin(range(1), row[0])
        model(*row)
    finally:
        for hook in hooks:
            hook.remove()
    return max(1, min(rows, budget // max(1, taken)))
