"""What an agent's run says on the terminal: a line per episode, and a table at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from concrete_dropout.cli.summary import print_paths
from concrete_dropout.runfolder import CONTROL, RunFolder

MAX_ROWS = 12


def print_episode(entry: Mapping[str, Any]) -> None:
    """One line, as soon as the episode is over."""
    reward, p = entry["reward"], " ".join(f"{value:.3f}" for value in entry["p"].values())
    learned = f", p {p}" if p else ""
    print(
        f"episode {entry['episode']:>2}: reward {reward['mean']:.2f} ± {reward['std']:.2f}, in the model "
        f"{entry['model_reward']:.2f}{learned}, {entry['seconds']:.0f} s",
        flush=True,
    )


def print_agent_summary(folder: Path, console: Console | None = None) -> None:
    """Print what the run folder says about a finished run."""
    console = console or Console(highlight=False)
    entries = (RunFolder(folder).read_json(CONTROL) or {}).get("episodes", [])
    if entries:
        console.print(_table(entries))
        best = max(entries, key=lambda entry: entry["reward"]["mean"])
        console.print(f"\nBest: {best['reward']['mean']:.2f} in episode {best['episode']}")
    print_paths(folder, console)


def _table(entries: list[dict[str, Any]]) -> Table:
    starts = entries[-1]["reward"]["starts"]
    table = Table(
        title=f"\nTrue reward over {starts} starts",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
    )
    for name in ("episode", "N", "reward", "±", "model", "p", "ratio", "calib."):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries[-MAX_ROWS:]:
        table.add_row(
            str(entry["episode"]),
            str(entry["num_train"]),
            f"{entry['reward']['mean']:.2f}",
            f"{entry['reward']['std']:.2f}",
            f"{entry['model_reward']:.2f}",
            " ".join(f"{p:.3f}" for p in entry["p"].values()) or "-",
            f"{entry['honesty']:.2f}" if entry["honesty"] else "-",
            f"{entry['far']['calibration_rmse']:.3f}",
        )
    return table
