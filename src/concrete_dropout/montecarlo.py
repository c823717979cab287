"""mc_predict: from a model and a batch to its predictive distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from concrete_dropout.dropout.passes import DEFAULT_MEMORY, deterministic_pass, stochastic_passes
from concrete_dropout.dropout.streams import MASKS, Mask
from concrete_dropout.predictive import CategoricalAccumulator, GaussianAccumulator, Prediction

Likelihood = Literal["gaussian", "categorical"]
Inputs = Tensor | tuple[Tensor, ...]
GATHERED_ELEMENTS = 1 << 13  # of outputs that are accumulated together


def mc_predict(
    model: nn.Module,
    x: Inputs,
    likelihood: Likelihood,
    samples: int = 50,
    *,
    targets: Tensor | None = None,
    log_var: Tensor | None = None,
    seed: int | None = None,
    mask: Mask = "concrete",
    frozen_masks: bool = False,
    batch_rows: int | None = None,
    batch_samples: int | None = None,
    memory_budget: int = DEFAULT_MEMORY,
) -> Prediction:
    """Predict with ``samples`` stochastic passes; the model's modes and random state of torch are left alone.

    Args:
        model: returns (mean, log_var), or mean alone, for "gaussian"; logits (rows, classes, ...) for "categorical".
        x: a tensor (rows, ...), or a tuple of them for a model with several arguments.
        likelihood: "gaussian" or "categorical".
        samples: number of passes; 0 makes one with dropout inactive (weight scaling, no epistemic part).
        targets: to score; class indices outside of the classes (void) get NaN.
        log_var: of shared noise, for models that return the mean alone; broadcasts with it.
        seed: results are the same for the same seed, up to rounding, whichever way the work is cut.
        mask: "concrete" (as in training) or "bernoulli" masks for Concrete layers.
        frozen_masks: one function draw per sample for all rows, instead of a mask for each row.
        batch_rows: rows per pass; as many as the memory budget allows by default.
        batch_samples: samples per pass; chosen by the size of the network by default.
        memory_budget: bytes of activations that a pass may take.

    Returns:
        A ``GaussianPrediction`` or a ``CategoricalPrediction``, by the likelihood. With targets it has their
        ``log_likelihood``, a Gaussian one their ``pit`` as well.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> prediction = mc_predict(model, torch.ones(4, 2), "categorical", samples=20, seed=0)
    >>> prediction.probabilities.shape, bool((prediction.epistemic > 0).all())
    (torch.Size([4, 3]), True)
    """
    made = mc_predict_at(
        model,
        x,
        likelihood,
        (samples,),
        targets=targets,
        log_var=log_var,
        seed=seed,
        mask=mask,
        frozen_masks=frozen_masks,
        batch_rows=batch_rows,
        batch_samples=batch_samples,
        memory_budget=memory_budget,
    )
    return made[samples]


def mc_predict_at(
    model: nn.Module,
    x: Inputs,
    likelihood: Likelihood,
    counts: Sequence[int],
    *,
    targets: Tensor | None = None,
    log_var: Tensor | None = None,
    seed: int | None = None,
    mask: Mask = "concrete",
    frozen_masks: bool = False,
    batch_rows: int | None = None,
    batch_samples: int | None = None,
    memory_budget: int = DEFAULT_MEMORY,
) -> dict[int, Prediction]:
    """Predictions with several numbers of samples, at the price of the largest: {count: what ``mc_predict`` gives}.

    The masks of a sample depend on its number alone, so the first 10 of 200 samples are those of a prediction with 10
    (up to rounding): the accumulators are read when they have seen as many. All arguments are those of ``mc_predict``.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> made = mc_predict_at(model, torch.ones(4, 2), "categorical", (5, 20), seed=0)
    >>> alone = mc_predict(model, torch.ones(4, 2), "categorical", 5, seed=0)
    >>> list(made), torch.allclose(made[5].probabilities, alone.probabilities)
    ([5, 20], True)
    """
    inputs = (x,) if isinstance(x, Tensor) else tuple(x)
    _check(inputs, likelihood, min(counts), targets, mask, batch_rows, batch_samples)
    made: dict[int, Prediction] = {}
    if 0 in counts:
        accumulator = _accumulator(likelihood, targets)
        _add(accumulator, deterministic_pass(model, inputs), log_var, slice(0, inputs[0].shape[0]))
        made[0] = accumulator.compute()
    wanted = sorted({count for count in counts if count > 0})
    if wanted:
        passes = stochastic_passes(
            model,
            inputs,
            wanted[-1],
            seed=seed,
            mask=mask,
            frozen_masks=frozen_masks,
            batch_rows=batch_rows,
            batch_samples=batch_samples,
            memory_budget=memory_budget,
        )
        parts = _read_at(wanted, _gathered(passes), likelihood, targets, log_var)
        made |= {count: part[0] if len(part) == 1 else _joined(part) for count, part in parts.items()}
    return {count: made[count] for count in counts}


def _read_at(
    wanted: list[int],
    outputs: Iterator[tuple[slice, Any]],
    likelihood: Likelihood,
    targets: Tensor | None,
    log_var: Tensor | None,
) -> dict[int, list[Prediction]]:
    """The predictions after each of the wanted numbers of samples, for one slice of rows after the other."""
    parts: dict[int, list[Prediction]] = {count: [] for count in wanted}
    rows, seen, accumulator = slice(0, 0), 0, _accumulator(likelihood, targets)

    def finish() -> None:  # a model without active dropout has made one pass for all of them
        for count in wanted:
            if rows.stop > 0 and count > seen:
                parts[count].append(accumulator.compute())

    for new_rows, output in outputs:
        if new_rows != rows:
            finish()
            rows, seen = new_rows, 0
            accumulator = _accumulator(likelihood, None if targets is None else targets[new_rows])
        for samples, part in _cut(output, seen, wanted):
            _add(accumulator, part, log_var, rows)
            seen += samples
            if seen in parts:
                parts[seen].append(accumulator.compute())
    finish()
    return parts


def _cut(output: Any, seen: int, wanted: list[int]) -> Iterator[tuple[int, Any]]:
    """An output of S samples behind ``seen`` others in pieces that end at the wanted numbers, with their sizes."""
    size = next(leaf.shape[0] for leaf in tree_leaves(output) if isinstance(leaf, Tensor))
    ends = [*(count - seen for count in wanted if seen < count < seen + size), size]
    if len(ends) == 1:
        yield size, output
        return
    for start, end in zip([0, *ends], ends, strict=False):
        yield end - start, tree_map_only(Tensor, partial(_between, start, end), output)


def _between(start: int, end: int, samples: Tensor) -> Tensor:
    return samples[start:end]


def _check(
    inputs: tuple[Tensor, ...],
    likelihood: str,
    samples: int,
    targets: Tensor | None,
    mask: str,
    batch_rows: int | None,
    batch_samples: int | None,
) -> None:
    if mask not in MASKS:
        raise ValueError(f"mask={mask!r} must be one of {', '.join(MASKS)}")
    if likelihood not in get_args(Likelihood):
        raise ValueError(f"likelihood={likelihood!r} must be one of {', '.join(get_args(Likelihood))}")
    if samples < 0:
        raise ValueError(f"samples={samples} must be 0 (dropout inactive) or more")
    for name, value in (("batch_rows", batch_rows), ("batch_samples", batch_samples)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    lengths = {tensor.shape[0] if tensor.dim() else 0 for tensor in inputs}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"x must have rows, the same number in each part; got {[tuple(t.shape) for t in inputs]}")
    if targets is not None and targets.shape[:1] != inputs[0].shape[:1]:
        raise ValueError(f"targets have {tuple(targets.shape[:1])} rows where x has {tuple(inputs[0].shape[:1])}")


def _gathered(passes: Iterator[tuple[slice, Any]]) -> Iterator[tuple[slice, Any]]:
    """Small outputs of consecutive passes over the same rows as one: accumulating them one by one takes longer."""
    waiting: list[Any] = []
    rows, elements = slice(0, 0), 0
    for new_rows, output in passes:
        leaves = (output,) if isinstance(output, Tensor) else tree_leaves(output)
        size = sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor))
        if waiting and (new_rows != rows or elements + size > GATHERED_ELEMENTS):
            yield rows, _stacked(waiting)
            waiting, elements = [], 0
        rows, elements = new_rows, elements + size
        waiting.append(output)
    if waiting:
        yield rows, _stacked(waiting)


def _stacked(outputs: list[Any]) -> Any:
    """Outputs with tensors (S, rows, ...) as one with all their samples."""
    if len(outputs) == 1:
        return outputs[0]
    return torch.cat(outputs) if isinstance(outputs[0], Tensor) else tree_map(_concatenated, *outputs)


def _concatenated(*parts: Any) -> Any:
    return torch.cat(parts) if isinstance(parts[0], Tensor) else parts[0]


def _accumulator(likelihood: Likelihood, targets: Tensor | None) -> GaussianAccumulator | CategoricalAccumulator:
    return GaussianAccumulator(targets) if likelihood == "gaussian" else CategoricalAccumulator(targets)


def _add(
    accumulator: GaussianAccumulator | CategoricalAccumulator, output: Any, log_var: Tensor | None, rows: slice
) -> None:
    """One chunk of model output, which follows the contract of its likelihood, into an accumulator."""
    if isinstance(accumulator, CategoricalAccumulator):
        if not isinstance(output, Tensor) or output.dim() < 3:
            raise ValueError('a model for likelihood="categorical" must return logits (rows, classes, ...)')
        accumulator.update(output)
    elif isinstance(output, Tensor):
        per_row = log_var is not None and log_var.dim() == output.dim() - 1 and log_var.shape[0] > 1
        accumulator.update(output, log_var[rows] if log_var is not None and per_row else log_var)
    elif isinstance(output, Sequence) and len(output) == 2:
        if log_var is not None:
            raise ValueError("log_var was given, but the model returns (mean, log_var) itself: leave one of them out")
        accumulator.update(*output)
    else:
        raise ValueError('a model for likelihood="gaussian" must return (mean, log_var), or mean alone')


def _joined(parts: list[Prediction]) -> Prediction:
    """Predictions of consecutive rows as one."""
    names = [field.name for field in fields(parts[0])]
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    joined = {name: None if values[0] is None else torch.cat(values) for name, values in columns.items()}
    return type(parts[0])(**joined)  # type: ignore[arg-type]
