"""python benchmarks/segmentation.py: FC-DenseNet against the structure of public implementations.

Those concatenate after every layer, in torch's contiguous format; here the same modules are put together that way, with
standard channel-wise dropout. Compared are a training step (forward, backward), one pass in eval mode, and 50
stochastic passes over an image (``mc_predict`` against a plain loop). Ratios come from interleaved rounds of one run,
with one thread and then with all. Memory is the peak of allocated tensors beyond the weights, of sampling with a few
passes: the loop keeps the probabilities of all of them, so that more would only flatter ``mc_predict``.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from typing import Any

import torch
from plain_loop import plain_loop
from timing import clock_of, interleaved_seconds, median_ratio, peak_bytes, print_table, setting
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from concrete_dropout import mc_predict, swap_dropout
from concrete_dropout.models.fc_densenet import PRESETS, FCDenseNet

CLASSES, CROP, BATCH, P = 11, 224, 3, 0.2
MEMORY_SAMPLES = 5
TARGETS = {"training": 1.25, "sampling": 1.5, "concrete": 1.03}


class ConcatenatingDenseNet(nn.Module):
    """The modules of an ``FCDenseNet``, copied, under a forward pass that concatenates after every layer.

    Shapes: (N, channels, H, W) -> (N, classes, H, W).
    """

    def __init__(self, net: FCDenseNet) -> None:
        super().__init__()
        self.net = copy.deepcopy(net)

    def forward(self, x: Tensor) -> Tensor:
        """Logits for every pixel."""
        x, skips = self.net.stem(x), []
        for level in self.net.down:
            x = torch.cat([x, self._new_features(level["block"], x)], dim=1)
            skips.append(x)
            x = level["transition"].pool(_layer(level["transition"], x))
        new = self._new_features(self.net.bottleneck, x)
        for level in self.net.up:
            skip = skips.pop()
            up = level["transition"].conv(new)[:, :, : skip.shape[2], : skip.shape[3]]
            x = torch.cat([up, skip], dim=1)
            new = self._new_features(level["block"], x)
        return self.net.head.conv(torch.cat([x, new], dim=1))

    def _new_features(self, block: nn.Module, x: Tensor) -> Tensor:
        new: list[Tensor] = []
        for layer in block.layers:
            new.append(_layer(layer, x))
            x = torch.cat([x, new[-1]], dim=1)
        return torch.cat(new, dim=1)


def _layer(layer: nn.Module, x: Tensor) -> Tensor:
    return layer.dropout(layer.conv(torch.relu_(layer.norm(x))))


def networks(preset: str) -> dict[str, nn.Module]:
    """The same network in all forms, with fixed p or a p to learn."""
    net = FCDenseNet(3, CLASSES, **PRESETS[preset], dropout=P)
    example = torch.zeros(1, 3, 64, 64)
    kinds = {"fixed": {"p": P}, "concrete": {"init_p": P}, "none": {}}
    ours = {kind: swap_dropout(copy.deepcopy(net), kind, example_input=example, **kinds[kind]) for kind in kinds}
    return {"plain": ConcatenatingDenseNet(net), **ours}


def training_steps(models: dict[str, nn.Module], size: int) -> dict[str, Callable[[], object]]:
    """Forward and backward of a batch for each model."""
    x, y = torch.rand(BATCH, 3, size, size), torch.randint(CLASSES, (BATCH, size, size))

    def step(model: nn.Module) -> None:
        model.train().zero_grad(set_to_none=True)
        cross_entropy(model(x), y).backward()

    return {name: lambda model=model: step(model) for name, model in models.items()}


def passes(models: dict[str, nn.Module], size: int) -> dict[str, Callable[[], object]]:
    """One pass over an image in eval mode."""
    x = torch.rand(1, 3, size, size)

    def evaluate(model: nn.Module) -> Tensor:
        with torch.no_grad():
            return model.eval()(x)

    return {name: lambda name=name: evaluate(models[name]) for name in ("plain", "fixed")}


def predictions(models: dict[str, nn.Module], size: int, samples: int) -> dict[str, Callable[[], object]]:
    """Many stochastic passes over an image."""
    x = torch.rand(1, 3, size, size)
    ours = {
        kind: lambda kind=kind: mc_predict(models[kind], x, "categorical", samples) for kind in ("fixed", "concrete")
    }
    return {"plain": lambda: plain_loop(models["plain"], x, samples), **ours}


def measure(preset: str, threads: int, size: int, samples: int, rounds: int) -> dict[str, Any]:
    """All ratios of one network with so many threads."""
    torch.set_num_threads(threads)
    models = networks(preset)
    training, evaluation, sampling = (
        training_steps(models, size),
        passes(models, size),
        predictions(models, size, samples),
    )
    clock = clock_of(threads)
    steps = interleaved_seconds(training, rounds, warmup=1, clock=clock)
    single = interleaved_seconds(evaluation, 2 * rounds + 1, warmup=1, clock=clock)
    many = interleaved_seconds(sampling, max(1, rounds // 3), warmup=0, clock=clock)  # of many passes each
    return {
        "network": preset,
        "threads": threads,
        "plain_seconds_per_step": sorted(steps["plain"])[rounds // 2],
        "training_times_faster": median_ratio(steps["plain"], steps["fixed"]),
        "concrete_step_relative_to_fixed": median_ratio(steps["concrete"], steps["fixed"]),
        "concrete_step_relative_to_none": median_ratio(steps["concrete"], steps["none"]),
        "evaluation_times_faster": median_ratio(single["plain"], single["fixed"]),
        "sampling_times_faster": median_ratio(many["plain"], many["fixed"]),
        "sampling_concrete_times_faster": median_ratio(many["plain"], many["concrete"]),
    }


def memory(preset: str, size: int) -> dict[str, float]:
    """Peak memory of one network relative to the plain one."""
    models = networks(preset)
    training, sampling = training_steps(models, size), predictions(models, size, MEMORY_SAMPLES)
    step, many = (peak_bytes(actions["plain"]) for actions in (training, sampling))
    return {
        "training_memory": peak_bytes(training["fixed"]) / step,
        "training_memory_concrete": peak_bytes(training["concrete"]) / step,
        "sampling_memory": peak_bytes(sampling["fixed"]) / many,
        "sampling_memory_concrete": peak_bytes(sampling["concrete"]) / many,
    }


def main() -> None:
    """Measure all networks, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["56", "67", "103"], choices=list(PRESETS))
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, torch.get_num_threads()}))
    parser.add_argument("--size", type=int, default=CROP, help=f"height and width of the crops (default {CROP})")
    parser.add_argument("--samples", type=int, default=50, help="stochastic passes (default 50)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="interleaved rounds of steps, and a third of them of samples (default 7)"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{setting()}, crops of {options.size}, {options.samples} samples, {options.rounds} rounds\n")
    results = []
    for preset in options.networks:
        peaks = memory(preset, options.size)
        for threads in options.threads:
            result = measure(preset, threads, options.size, options.samples, options.rounds)
            results.append({**result, **peaks})
            print(json.dumps(results[-1]), flush=True)  # a whole run takes an hour
    rows = [
        (
            f"{r['network']}, {r['threads']} thread{'s' if r['threads'] > 1 else ''}",
            f"{r['training_times_faster']:.2f}x (>= {TARGETS['training']:g})",
            f"{r['evaluation_times_faster']:.2f}x",
            f"{r['sampling_times_faster']:.2f}x (>= {TARGETS['sampling']:g})",
            f"{r['sampling_concrete_times_faster']:.2f}x",
            f"{r['concrete_step_relative_to_fixed']:.2f} (<= {TARGETS['concrete']:g})",
            f"{r['concrete_step_relative_to_none']:.2f}",
            f"{r['training_memory']:.2f}",
            f"{r['sampling_memory']:.2f}",
        )
        for r in results
    ]
    header = (
        "FC-DenseNet",
        "training faster",
        "one pass",
        "MC faster",
        "MC, Concrete",
        "step: Concrete / fixed",
        "Concrete / none",
        "training memory",
        "MC memory",
    )
    print_table(header, rows)
    print(json.dumps({"benchmark": "segmentation", "results": results}))


if __name__ == "__main__":
    main()
