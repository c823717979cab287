"""Times and memory of several functions side by side: interleaved rounds, so that a busy machine slows all alike."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Functions = Mapping[str, Callable[[], object]]


def interleaved_seconds(functions: Functions, rounds: int, warmup: int = 3) -> dict[str, list[float]]:
    """Seconds per call of each function, one call of each per round."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(warmup + rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
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


def peak_bytes(function: Callable[[], object]) -> int:
    """Largest number of bytes of tensors allocated at one time by ``function``, above what there was before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = function()
    del result
    current = peak = 0
    for event in profiled.profiler.kineto_results.events():  # in the order of time
        if event.name() == "[memory]":
            current += event.nbytes()
            peak = max(peak, current)
    return peak


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
