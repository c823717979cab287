"""The run folder: what a run leaves behind, written as it goes and read by reports; knows files, not torch.

JSON and text are replaced atomically. Tables are append-only, so that a killed run still has what it had.
"""

from __future__ import annotations

import csv
import errno
import itertools
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONFIG = "config.yaml"
CONFIG_DIFF = "config_diff.json"
RUN = "run.json"
METRICS = "metrics.csv"
DROPOUT = "dropout.csv"
CONVERGENCE = "convergence.json"
CALIBRATION = "calibration.json"
UNCERTAINTY = "uncertainty.json"
BAND = "band.json"
SELECTIVE = "selective.json"  # classification and segmentation: scores when the most uncertain are left out
CLASSES = "classes.json"  # segmentation: IoU of every class
GALLERY = "gallery.json"  # classification: samples that are worth a look
MAPS = "maps.json"  # segmentation: pictures of predictions and their uncertainty through training
CONTROL = "control.json"  # agents: what came of every episode
SUMMARY = "summary.json"
HEARTBEAT = "heartbeat.json"  # while the run is under way, see concrete_dropout.heartbeat
REPORT = "report.html"
REPLICAS = "replicas.csv"  # one row per replica of a batched run
REPLICA_LABELS = "replicas.json"
STUDY = "study.json"  # of a folder of runs
EVALUATION = "results.json"  # of a folder of evaluate.py
EVALUATION_TABLE = "results.csv"
EVALUATION_PAGE = "evaluation.html"
SWEEP = "sweep.json"  # of a folder of jobs: the command
JOB = "job.json"  # of a job of a sweep: its overrides and how it ended
FIGURES = "figures"
IMAGES = "images"
VIDEOS = "videos"
CHECKPOINTS = "checkpoints"

METRICS_HEADER = ("step", "epoch", "metric", "value")
DROPOUT_HEADER = ("step", "layer", "p")


def predictions_name(stage: str) -> str:
    """Name of the table of predictions on "val" or "test" data."""
    return f"predictions_{stage}.csv"


class RunFolder:
    """Reads and writes the files of one run.

    Args:
        path: the folder; made when something is first written.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file atomically: a reader sees the old text or the new one."""
        return self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace a file of any kind atomically."""
        target = self.path / name
        with naming(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(temporary, default_mode())
                os.replace(temporary, target)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        return target

    def remove_unfinished(self) -> None:
        """Remove what a killed process had begun to write; for the one process whose folder it is.

        Reports may be built by others at any time: those stay.
        """
        for path in [*self.path.glob(".*.tmp"), *self.path.glob("*/.*.tmp")]:
            if not path.name.startswith(f".{REPORT}."):
                path.unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> Path:
        """Replace a JSON file atomically; NaN and infinities become null, which every reader understands."""
        return self.write_text(name, json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def update_json(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change some keys of a JSON object and keep the others."""
        value = {**(self.read_json(name) or {}), **changes}
        self.write_json(name, value)
        return value

    def append_rows(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a CSV table, which starts with its header; on disk when this returns."""
        target = own_file(self.path, name)
        with naming(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if file.tell() == 0:
                    writer.writerow(header)
                writer.writerows(rows)

    def read_json(self, name: str) -> Any:
        """The content of a JSON file, or None where there is none."""
        target = own_file(self.path, name)
        return json.loads(target.read_text(encoding="utf-8")) if target.is_file() else None

    def read_record(self, name: str) -> dict[str, Any]:
        """A JSON object; an empty one where there is none, or a damaged one."""
        try:
            value = self.read_json(name)
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def read_table(self, name: str) -> list[dict[str, str]]:
        """The rows of a CSV table; none where there is no file. A last row that a kill cut short is left out."""
        target = own_file(self.path, name)
        if not target.is_file():
            return []
        # A kill may also cut a character of several bytes in two: that costs the character, not the table.
        with target.open(newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.reader(file)  # twice as fast as csv.DictReader, which matters to readers of many runs
            header = next(reader, [])
            return [dict(zip(header, row, strict=True)) for row in reader if row and len(row) == len(header)]


def own_file(folder: Path, name: str) -> Path:
    """A path in a run folder, which may have come from elsewhere: links out of it could show or change any file.

    Raises:
        OSError: it is such a link, or in a folder that is one.
    """
    path = folder
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise OSError(errno.ELOOP, "is a link that leads out of the run folder", str(path))
    return path


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Errors of the system name this file: that of a full disk names none, others name a temporary one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value


def new_folder(wanted: Path) -> Path:
    """Make a folder of this name, with a number behind it where there is one already.

    Names are times, and clocks stand still for a program that is quick, and are put back.
    """
    for number in itertools.count(1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        break
    return path


def default_mode() -> int:
    """The permissions that a new file has; those of temporary files are narrower."""
    current = os.umask(0)
    os.umask(current)
    return 0o666 & ~current
