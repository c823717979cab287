"""python benchmarks/layer.py: the Concrete layer against the paper's expression, nn.Dropout and a peer package.

Forward and backward, for x and p. Times are ratios of interleaved rounds in one run. Memory is what autograd keeps
between forward and backward, once with the input and once without (the input is mostly kept by others anyway).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import torch
from timing import interleaved_seconds, median_ratio, print_table, saved_bytes, setting
from torch import Tensor, nn

from concrete_dropout import ConcreteDropout, ConcreteDropout2d

CASES: list[tuple[str, tuple[int, ...], bool]] = [
    ("elementwise (128, 512)", (128, 512), False),
    ("elementwise (1024, 1024)", (1024, 1024), False),
    ("elementwise (8, 64, 128, 128)", (8, 64, 128, 128), False),
    ("channelwise (8, 64, 128, 128)", (8, 64, 128, 128), True),
]
TARGETS: dict[str, dict[str, float]] = {
    "elementwise (128, 512)": {"expression": 2.0, "dropout": 1.0},
    "elementwise (1024, 1024)": {"expression": 2.5, "dropout": 1.0},
    "elementwise (8, 64, 128, 128)": {"expression": 3.5, "dropout": 1.1},
    "channelwise (8, 64, 128, 128)": {"dropout": 1.15},
}


class PaperExpression(nn.Module):
    """The listing in the paper's appendix C, operation by operation."""

    def __init__(self, channelwise: bool) -> None:
        super().__init__()
        self.p_logit = nn.Parameter(torch.tensor(math.log(0.1 / 0.9)))
        self.channelwise = channelwise

    def forward(self, x: Tensor) -> Tensor:
        """Soft dropout of x."""
        eps, temperature = 1e-7, 0.1
        p = torch.sigmoid(self.p_logit)
        noise = torch.rand((*x.shape[:2], 1, 1) if self.channelwise else x.shape)
        drop = torch.log(p + eps) - torch.log(1 - p + eps) + torch.log(noise + eps) - torch.log(1 - noise + eps)
        drop = torch.sigmoid(drop / temperature)
        return x * (1 - drop) / (1 - p)


def peer(channelwise: bool) -> Callable[[Tensor], Tensor] | None:
    """The PyPI package ``concretedropout``; None where it is not installed. It changes its input, hence the copy."""
    try:
        from concretedropout.pytorch import ConcreteDropout2D, ConcreteLinearDropout
    except ImportError:
        return None
    layer = ConcreteDropout2D() if channelwise else ConcreteLinearDropout()
    identity = nn.Identity()
    identity.weight = torch.ones(1)  # its regulariser asks for one
    return lambda x: layer(x.clone(), identity)


def measure(name: str, shape: tuple[int, ...], channelwise: bool, rounds: int) -> dict[str, Any]:
    """All ratios of one case."""
    x, gradient = torch.randn(shape, requires_grad=True), torch.randn(shape)
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "ours": ConcreteDropout2d(0.1) if channelwise else ConcreteDropout(0.1),
        "expression": PaperExpression(channelwise),
        "dropout": nn.Dropout2d(0.1) if channelwise else nn.Dropout(0.1),
    }
    if (package := peer(channelwise)) is not None:
        layers["peer"] = package

    def step(layer: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            layer(x).backward(gradient)

        return run

    seconds = interleaved_seconds({key: step(layer) for key, layer in layers.items()}, rounds)
    kept = {key: saved_bytes(lambda layer=layer: layer(x)) for key, layer in layers.items()}  # type: ignore[misc]
    size = x.untyped_storage().nbytes()
    return {
        "case": name,
        "times_faster_than_expression": median_ratio(seconds["expression"], seconds["ours"]),
        "time_relative_to_dropout": median_ratio(seconds["ours"], seconds["dropout"]),
        "times_faster_than_peer": median_ratio(seconds["peer"], seconds["ours"]) if "peer" in layers else None,
        "saved_bytes_relative_to_expression": kept["ours"] / kept["expression"],
        "saved_bytes_beyond_input_relative_to_expression": (kept["ours"] - size) / (kept["expression"] - size),
        "saved_bytes_per_element": kept["ours"] / x.numel(),
    }


def main() -> None:
    """Measure all cases, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41, help="interleaved rounds per case (default 41)")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{setting()}, {options.rounds} rounds, p = 0.1\n")
    results = [measure(*case, rounds=options.rounds) for case in CASES]
    rows = []
    for result in results:
        target = TARGETS[result["case"]]
        peer_ratio = result["times_faster_than_peer"]
        goal = f" (>= {target['expression']:g})" if "expression" in target else ""
        rows.append((
            result["case"],
            f"{result['times_faster_than_expression']:.2f}x" + goal,
            f"{result['time_relative_to_dropout']:.2f}x (<= {target['dropout']:g})",
            "-" if peer_ratio is None else f"{peer_ratio:.2f}x",
            f"{result['saved_bytes_relative_to_expression']:.3f}",
            f"{result['saved_bytes_beyond_input_relative_to_expression']:.3f}",
        ))  # fmt: skip
    header = (
        "forward + backward",
        "faster than expression",
        "time of nn.Dropout",
        "faster than peer",
        "saved bytes",
        "beyond input",
    )
    print_table(header, rows)
    print(json.dumps({"benchmark": "layer", "results": results}))


if __name__ == "__main__":
    main()
