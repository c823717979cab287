"""python benchmarks/denormals.py: what weights that a prior has pulled to nothing cost, as they are and as 0.

Forward and backward of the network of experiment=mnist, one thread, with a share of its weights below the smallest
normal float32: a narrow prior (dropout.length_scale=2) leaves a few per cent after 8 epochs, few training data (1,000)
more than a tenth. Processors differ much. Times are ratios of interleaved rounds in one run, to the same network
without such weights.
"""

from __future__ import annotations

import argparse
import json

import torch
from timing import clock_of, interleaved_seconds, median_ratio, print_table, setting
from torch import nn

from concrete_dropout.models import MLP

DENORMAL = 1e-39
SHARES = (0.05, 0.2)


def network(share: float) -> nn.Module:
    """With so many of its weights next to nothing."""
    model = MLP(784, 10, hidden=[512, 512, 512])
    with torch.no_grad():
        for weight in model.parameters():
            weight[torch.rand_like(weight) < share] *= DENORMAL
    return model


def measure(share: float, rounds: int) -> dict[str, float]:
    """Times as they are and as 0, relative to those without such weights."""
    torch.set_flush_denormal(False)  # or they would become 0 at once
    x, normal, decayed = torch.rand(256, 784), network(0.0), network(share)

    def step(model: nn.Module, flush: bool) -> None:
        torch.set_flush_denormal(flush)
        model.zero_grad()
        model(x).square().mean().backward()

    seconds = interleaved_seconds(
        {
            "normal": lambda: step(normal, False),
            "denormal": lambda: step(decayed, False),
            "flushed": lambda: step(decayed, True),
        },
        rounds,
        clock=clock_of(1),
    )
    return {"share": share} | {name: median_ratio(seconds[name], seconds["normal"]) for name in ("denormal", "flushed")}


def main() -> None:
    """Measure, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds per share (default 9)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{setting()}, {options.rounds} rounds\n")
    results = [measure(share, options.rounds) for share in SHARES]
    rows = [(f"{r['share']:.0%}", f"{r['denormal']:.1f}x", f"{r['flushed']:.2f}x") for r in results]
    print_table(("share of the weights", "time as they are", "time as 0"), rows)
    print(json.dumps({"benchmark": "denormals", "results": results}))


if __name__ == "__main__":
    main()
