"""Many stochastic passes over one batch, cut into chunks of rows and samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo import OptimizedModule
from torch.utils._pytree import tree_leaves, tree_map_only

from concrete_dropout.dropout.kinds import plain_class
from concrete_dropout.dropout.modes import evaluating
from concrete_dropout.dropout.prefix import DeviationError, PrefixCache
from concrete_dropout.dropout.sampling import MaskSampler, active_dropouts, mc_sampling
from concrete_dropout.dropout.streams import Mask

# Batching samples saves overhead per call. It stops paying once the activations of a batch leave the cache.
BATCHED_ELEMENTS = 1 << 16
DEFAULT_MEMORY = 1 << 30
PILOT_ELEMENTS = 1 << 22  # inputs below this are not worth a pass to measure their memory


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
        batch_samples: samples per pass at the most; chosen by the size of the network by default.
        memory_budget: bytes of activations that a pass may take.

    Yields:
        The slice of rows, and the model's output with every tensor as (S, rows, ...). All samples of one
        slice come before the next slice.
    """
    model = model._orig_mod if isinstance(model, OptimizedModule) else model
    total = inputs[0].shape[0]
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        mc_sampling(model, seed, frozen_masks, mask=mask) as sampler,
    ):
        if not active_dropouts(model):
            samples = 1
        step = batch_rows or _affordable_rows(model, inputs, sampler, memory_budget)
        for start in range(0, total, step):
            chunk = tuple(tensor[start : start + step] for tensor in inputs)
            rows = slice(start, start + chunk[0].shape[0])
            for output in _passes_over_samples(model, chunk, samples, sampler, start, batch_samples):
                yield rows, output


def deterministic_pass(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """One pass with dropout inactive, as a single sample: tensors are (1, rows, ...)."""
    with torch.no_grad(), evaluating(model):
        return _split_samples(model(*inputs), 1, inputs[0].shape[0])


def _passes_over_samples(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    samples: int,
    sampler: MaskSampler,
    first_row: int,
    batch_samples: int | None,
) -> Iterator[Any]:
    rows = inputs[0].shape[0]
    cache = PrefixCache(model, inputs)
    cacheable = samples > 1 and not any(isinstance(m, OptimizedModule) for m in model.modules())
    sampler.largest_input = 0
    done, width = 0, 1
    with cache.attached() if cacheable else nullcontext():
        while done < samples:
            window = range(done, min(done + width, samples))
            sampler.pin(window, inputs[0], first_row)
            cache.widening = len(window) > 1
            try:
                if cacheable and not cache.broken:
                    cache.begin()
                    with cache:
                        output = model(*inputs)
                    output = cache.finish(output)
                else:
                    output = model(*inputs)
                yield _split_samples(output, len(window), rows)
            except DeviationError:
                if len(window) == 1:
                    cache.broken = True
                width, batch_samples = 1, 1
                continue
            done += len(window)
            if width == 1 and cacheable and not cache.broken and cache.read_by_dropout_only:
                width = batch_samples or max(1, BATCHED_ELEMENTS // max(1, sampler.largest_input))
                if any(plain_class(layer) is None for layer in active_dropouts(model).values()):
                    width = 1


def _split_samples(output: Any, samples: int, rows: int) -> Any:
    """Tensors (S * rows, ...) -> (S, rows, ...)."""

    def split(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != samples * rows:
            if samples > 1:
                raise DeviationError  # a network that does not keep rows in front: one sample at a time
            raise ValueError(f"the model's output {tuple(tensor.shape)} must have one row per input row ({rows})")
        return tensor.unflatten(0, (samples, rows))

    return tree_map_only(Tensor, split, output)


def _affordable_rows(model: nn.Module, inputs: tuple[Tensor, ...], sampler: MaskSampler, budget: int) -> int:
    """Rows whose activations fit the budget, judged by a pass over one row if the input is large."""
    rows = inputs[0].shape[0]
    if rows <= 1 or sum(tensor.numel() for tensor in inputs) < PILOT_ELEMENTS:
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
