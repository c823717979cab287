"""Times and memory of several functions side by side: interleaved rounds, so that a busy machine slows all alike."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Functions = Mapping[str, Callable[[], object]]


def clock_of(threads: int) -> Callable[[], float]:
    """A clock that other work on the machine disturbs least: one thread is timed by the CPU time that it takes."""
    return time.process_time if threads == 1 else time.perf_counter


def interleaved_seconds(
    functions: Functions, rounds: int, warmup: int = 3, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds per call of each function, one call of each per round."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(warmup + rounds):
        for name, function in functions.items():
            start = clock()
            function()
            elapsed = clock() - start
            if number >= warmup:
                seconds[name].append(elapsed)
    return seconds


def median_ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))


def saved_bytes(function: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps for the backward pass of what ``function`` returns; shared memory counts once."""
    storages: dict[int, int] = {}
    alive: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = function()
    del output
    return sum(storages.values())


class PeakMemory(TorchDispatchMode):
    """Largest number of bytes in living tensors made inside of the context."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self._alive = {key: entry for key, entry in self._alive.items() if not entry[0].expired()}
        inputs = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in inputs:  # a view, or changed in place: counted already, or from before
                    self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return out


def peak_bytes(action: Callable[[], object]) -> int:
    """Peak of what an action allocates when it is done a second time: buffers for all calls are there by then."""
    action()
    with PeakMemory() as memory:
        action()
    return memory.peak


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns aligned under their headers."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, tuple("-" * width for width in widths), *rows):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def setting() -> str:
    """What the figures below were measured with."""
    return (
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
