"""What a run says on the terminal: a line at its start, and at its end metrics, learned p, and where everything is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from concrete_dropout.cli.paths import shortest
from concrete_dropout.runfolder import CONVERGENCE, REPORT, RUN, SUMMARY, RunFolder

# metric -> (name, what it means)
MEANINGS = {
    "log_likelihood": ("log-likelihood", "nats per point, higher is better"),
    "rmse": ("RMSE", "of the predictive mean"),
    "crps": ("CRPS", "lower is better"),
    "epistemic_std": ("epistemic std", "what the network does not know"),
    "aleatoric_std": ("aleatoric std", "what it takes for noise"),
    "calibration_rmse": ("calibration RMSE", "0: intervals hold what they promise"),
}
# The same for classes, single ones or those of pixels.
CLASS_MEANINGS = {
    "miou": ("mIoU", "intersection over union, mean over classes"),
    "accuracy": ("accuracy", "share of right predictions"),
    "class_accuracy": ("class accuracy", "the same, mean over classes"),
    "log_likelihood": ("log-likelihood", "nats per observation, higher is better"),
    "brier": ("Brier score", "0 to 2, lower is better"),
    "ece": ("ECE", "0: as often right as confident"),
    "calibration_rmse": ("calibration RMSE", "the same as a root mean square"),
    "mutual_information": ("epistemic", "mutual information, nats"),
    "expected_entropy": ("aleatoric", "expected entropy, nats"),
}
NO_MC = "_no_mc"  # of one pass without dropout
TITLES = {"test": "Test data", "val": "Validation data"}
MAX_LAYERS = 40
SATURATED = {"low": "nearly 0", "high": "above 0.6"}


def print_start(folder: Path, facts: Mapping[str, Any], console: Console | None = None) -> None:
    """One line: what is trained, and where."""
    console = console or Console(highlight=False)
    what = f"{facts['experiment']}: {facts['dropout']} dropout, N = {facts['num_train']}"
    console.print(escape(f"{what}, in {shortest(folder)}"), soft_wrap=True)


def print_summary(folder: Path, console: Console | None = None) -> None:
    """Print what the run folder says about a finished run."""
    console = console or Console(highlight=False)
    files = RunFolder(folder)
    record, summary = files.read_json(RUN) or {}, files.read_json(SUMMARY) or {}
    metrics, probabilities = summary.get("metrics", {}), summary.get("probabilities", {})
    convergence = (files.read_json(CONVERGENCE) or {}).get("layers", {})
    for stage in TITLES:
        if any(name.startswith(f"{stage}/") for name in metrics):
            console.print(_metrics(metrics, stage))
            break
    if probabilities:
        console.print(_probabilities(probabilities, convergence, record))
    print_paths(folder, console)


def print_paths(folder: Path, console: Console) -> None:
    """Where the run folder, its checkpoint and its report are, and how to upload the W&B run."""
    files = RunFolder(folder)
    console.print()
    for name, path in _paths(files, files.read_json(RUN) or {}).items():
        console.print(f"{name:<12} {escape(path)}", soft_wrap=True)


def _metrics(metrics: dict[str, float], stage: str) -> Table:
    meanings = CLASS_MEANINGS if f"{stage}/accuracy" in metrics else MEANINGS
    table = _table(TITLES[stage])
    table.add_column("metric")
    table.add_column("value", justify="right")
    compared = any(f"{stage}/{key}{NO_MC}" in metrics for key in meanings)
    if compared:
        table.add_column("no MC", justify="right")
    table.add_column("", style="dim")
    for key, (name, meaning) in meanings.items():
        value, without = metrics.get(f"{stage}/{key}"), metrics.get(f"{stage}/{key}{NO_MC}")
        if value is not None:
            numbers = [f"{value:.4g}", *(["" if without is None else f"{without:.4g}"] if compared else [])]
            table.add_row(name, *numbers, meaning)
    return table


def _probabilities(
    probabilities: dict[str, dict[str, float]], convergence: dict[str, Any], record: dict[str, Any]
) -> Table:
    kinds = {layer["name"]: layer["kind"] for layer in record.get("layers", [])}
    table = _table("Dropout probability per layer")
    table.add_column("layer")
    table.add_column("kind")
    table.add_column("initial p", justify="right")
    table.add_column("p", justify="right")
    table.add_column("last fifth", justify="right")  # of the steps: the trend of p there
    table.add_column("")
    shown = _shown(probabilities, convergence)
    for name in shown:
        p, facts = probabilities[name], convergence.get(name, {})
        numbers = (_number(p.get("initial")), _number(p.get("final")), _change(facts.get("change_last_fifth")))
        table.add_row(escape(name), kinds.get(name, ""), *numbers, _note(facts))
    rest = [p["final"] for name, p in probabilities.items() if name not in shown and p.get("final") is not None]
    if rest:
        table.add_row(f"{len(rest)} more", "", "", f"{min(rest):.4f}", f"to {max(rest):.4f}", "in the report")
    return table


def _shown(probabilities: dict[str, dict[str, float]], convergence: dict[str, Any]) -> list[str]:
    """Layers with a row of their own; of a deep network some from its whole depth, and those with something to say."""
    names = list(probabilities)
    if len(names) <= MAX_LAYERS:
        return names
    typical = {*names[:2], names[len(names) // 2], *names[-2:]}  # those that the paper draws
    return [name for name in names if name in typical or _note(convergence.get(name, {}))][:MAX_LAYERS]


def _table(title: str) -> Table:
    return Table(title=f"\n{title}", title_justify="left", title_style="bold", header_style="dim", box=None)


def _note(facts: dict[str, Any]) -> str:
    """What is wrong with a learned p."""
    moving = "" if facts.get("converged", True) else "still moving"
    return ", ".join(filter(None, [moving, SATURATED.get(facts.get("saturated") or "", "")]))


def _change(change: float | None) -> str:
    return "-" if change is None else f"{change:+.4f}"


def _number(p: float | None) -> str:
    return "-" if p is None else f"{p:.4f}"


def _paths(files: RunFolder, record: dict[str, Any]) -> dict[str, str]:
    paths = {"run folder": shortest(files.path)}
    last = (record.get("checkpoints") or {}).get("last")
    if last:
        paths["checkpoint"] = shortest(files.path / last)
    if (files.path / REPORT).is_file():
        paths["report"] = shortest(files.path / REPORT)
    wandb = (record.get("loggers") or {}).get("wandb")
    if wandb and "offline-run" in wandb:
        paths["W&B"] = f"logged offline; upload with: wandb sync {shlex.quote(shortest(files.path / wandb))}"
    elif wandb:
        paths["W&B"] = shortest(files.path / wandb)
    return paths
