"""Watches a run from inside: memory, Python's objects and open files at every validation."""

from __future__ import annotations

import gc
import json
import os
import tracemalloc
from pathlib import Path

import pytorch_lightning as pl

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def open_files() -> int:
    """Descriptors, but for the one that looks."""
    return len(os.listdir("/proc/self/fd")) - 1


class Probe(pl.Callback):
    """Writes a line of JSON at the end of every validation.

    Args:
        path: of the file.
        trace_from: validation from which on Python's objects are counted: that slows a run down.
    """

    def __init__(self, path: str, trace_from: int) -> None:
        self.path, self.trace_from = Path(path), trace_from
        self.seen = 0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seen += 1
        if self.seen == self.trace_from:
            tracemalloc.start()
        gc.collect()
        objects = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else None
        line = {"step": trainer.global_step, "resident": resident(), "objects": objects, "files": open_files()}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
