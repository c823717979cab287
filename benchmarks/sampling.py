"""python benchmarks/sampling.py: mc_predict with 50 samples against a plain loop over model(x).

Ratios come from interleaved rounds of one run; memory is the peak of allocated tensors, the weights included. Small
networks wait for threads more than they gain by them where other work holds a core: OMP_NUM_THREADS=1 gives steady
figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from plain_loop import plain_loop
from timing import clock_of, interleaved_seconds, median_ratio, peak_bytes, print_table, setting
from torch import Tensor, nn

from concrete_dropout import mc_predict, swap_dropout


def mlp(features: int = 784, width: int = 512, classes: int = 10) -> nn.Module:
    """3 x 512 with dropout in front of every layer."""
    layers: list[nn.Module] = []
    for inputs in (features, width, width):
        layers += [nn.Dropout(0.1), nn.Linear(inputs, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(width, classes))


class EncoderDecoder(nn.Module):
    """A small segmentation network with skip connections and dropout in its second half only."""

    def __init__(self, channels: int = 16, classes: int = 11) -> None:
        super().__init__()
        c = channels
        self.down1, self.down2 = _block(3, c), _block(c, 2 * c)
        self.pool = nn.MaxPool2d(2)
        self.middle = _block(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.merge2, self.merge1 = _block(4 * c, 2 * c, dropout=0.2), _block(2 * c, c, dropout=0.2)
        self.head = nn.Conv2d(c, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, classes, H, W)."""
        full = self.down1(x)
        half = self.down2(self.pool(full))
        quarter = self.middle(self.pool(half))
        half = self.merge2(torch.cat([self.up2(quarter), half], dim=1))
        return self.head(self.merge1(torch.cat([self.up1(half), full], dim=1)))


def _block(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """Three convolutions in the encoder, as in VGG; two behind a dropout in the decoder."""
    layers: list[nn.Module] = [nn.Dropout2d(dropout)] if dropout else []
    for channels in (inputs, outputs) if dropout else (inputs, outputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def measure(name: str, model: nn.Module, x: Tensor, samples: int, rounds: int) -> dict[str, Any]:
    """Time and memory of both ways."""
    functions: dict[str, Callable[[], object]] = {
        "loop": lambda: plain_loop(model, x, samples),
        "ours": lambda: mc_predict(model, x, "categorical", samples),
    }
    seconds = interleaved_seconds(functions, rounds, warmup=1, clock=clock_of(torch.get_num_threads()))
    weights = sum(parameter.nbytes for parameter in model.parameters())
    peaks = {key: weights + peak_bytes(function) for key, function in functions.items()}
    return {
        "case": name,
        "times_faster_than_loop": median_ratio(seconds["loop"], seconds["ours"]),
        "peak_memory_relative_to_loop": peaks["ours"] / peaks["loop"],
    }


def main() -> None:
    """Measure all cases, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds per case (default 7)")
    parser.add_argument("--samples", type=int, default=50, help="stochastic passes (default 50)")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{setting()}, {options.samples} samples, {options.rounds} rounds\n")
    results = []
    for kind in ("concrete", "fixed"):
        for rows in (1, 32, 256):
            x = torch.randn(rows, 784)
            model = swap_dropout(mlp(), kind, example_input=x[:1])
            results.append(measure(f"MLP 3x512, {kind}, {rows} rows", model, x, options.samples, options.rounds))
        for size in ((1, 3, 64, 64), (2, 3, 128, 128)):
            x = torch.randn(size)
            model = swap_dropout(EncoderDecoder(), kind, example_input=x[:1])
            name = f"segmentation, {kind}, {tuple(size)}"
            results.append(measure(name, model, x, options.samples, options.rounds))
    rows_out = [
        (r["case"], f"{r['times_faster_than_loop']:.2f}x", f"{r['peak_memory_relative_to_loop']:.2f}") for r in results
    ]
    print_table(("mc_predict", "faster than loop", "peak memory of loop"), rows_out)
    print(json.dumps({"benchmark": "sampling", "results": results}))


if __name__ == "__main__":
    main()
