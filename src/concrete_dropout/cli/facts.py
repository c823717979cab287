"""What a run should say about itself, so that others can repeat it: command, commit, hardware, versions."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess  # nosec B404 # git with fixed words, and no shell
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

OURS = "concrete-dropout-lightning"
PACKAGES = (OURS, "torch", "pytorch-lightning", "torchmetrics", "hydra-core", "wandb", "numpy")


def run_facts(command: list[str] | None = None) -> dict[str, Any]:
    """Plain values for run.json."""
    arguments = sys.argv if command is None else command
    return {
        "command": shlex.join(["python", Path(arguments[0]).name, *arguments[1:]]),
        "commit": commit(Path(arguments[0]).absolute().parent),
        "hardware": hardware(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def commit(folder: Path) -> str | None:
    """The commit that the code is at, with "+" behind it where files were changed since; None outside of git."""
    try:
        revision = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return revision + ("+" if changed else "")


def hardware() -> str:
    """Processor, cores in use, and accelerators."""
    parts = [f"{_processor()}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"]
    if torch.cuda.is_available():
        parts += [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return "; ".join(parts)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(  # nosec B603, B607 # as above; whichever git the user has
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
