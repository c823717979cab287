"""Everything that a report needs from one run folder, read once; damaged files become notes, not exceptions."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, TypeVar

from concrete_dropout import runfolder
from concrete_dropout.errors import UserError
from concrete_dropout.report.pictures import Picture, read_pictures
from concrete_dropout.runfolder import RunFolder

T = TypeVar("T")
Points = tuple[list[float], list[float]]
Kind = Literal["regression", "classification", "segmentation"]

STAGES = ("test", "val")
STAGE_WORDS = {"test": "test", "val": "validation"}
NO_MC = "_no_mc"  # of scores of one pass without dropout
# Pictures of an image in maps.json: of the image itself, and of every step.
FIXED = ("input", "target")
CHANGING = ("prediction", "epistemic", "aleatoric", "error")
# A folder with one of these is a run, however early it ended.
SIGNS = (runfolder.RUN, runfolder.CONFIG, runfolder.METRICS, runfolder.DROPOUT)
# Beside what JSON and CSV readers raise: numbers of absurd length, nesting of absurd depth.
UNREADABLE = (OSError, ValueError, csv.Error, RecursionError)


@dataclass(frozen=True)
class Record:
    """The content of a run folder; what is missing or unreadable is empty, and ``problems`` says so."""

    name: str
    run: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    convergence: dict[str, Any] = field(default_factory=dict)
    calibration: dict[str, Any] = field(default_factory=dict)
    uncertainty: dict[str, Any] = field(default_factory=dict)
    band: dict[str, Any] = field(default_factory=dict)
    selective: dict[str, Any] = field(default_factory=dict)
    classes: dict[str, Any] = field(default_factory=dict)
    gallery: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    control: dict[str, Any] = field(default_factory=dict)
    videos: dict[str, str] = field(default_factory=dict)
    config: str = ""
    config_diff: list[dict[str, Any]] | None = None
    metrics: dict[str, Points] = field(default_factory=dict)
    dropout: dict[str, Points] = field(default_factory=dict)
    predictions: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """ "running", "finished", "failed", "interrupted", or "" where it is not recorded."""
        return str(self.run.get("state") or "")

    @property
    def stage(self) -> str:
        """The data that headline numbers are about: "test" where it was scored, else "val"."""
        scores = ("nll", "reward")
        return next((stage for stage in STAGES if any(self.metric(stage, s) is not None for s in scores)), "val")

    @property
    def kind(self) -> Kind:
        """The task of the run, by the scores that it has."""
        if any(self.metric(stage, "miou") is not None for stage in STAGES):
            return "segmentation"
        confident = any("confidence" in mapping(self.calibration.get(stage)) for stage in STAGES)
        scored = any(self.metric(stage, "accuracy") is not None for stage in STAGES)
        return "classification" if scored or confident else "regression"

    def sampled(self, stage: str) -> bool:
        """Whether predictions of a stage came from several masks, as far as their mutual information shows."""
        information = self.metric(stage, "mutual_information")
        return information is None or information > 1e-6

    @property
    def step(self) -> float | None:
        """The last training step that left a trace."""
        traces = [steps[-1] for steps, _ in (*self.metrics.values(), *self.dropout.values()) if steps]
        recorded = finite(self.run.get("step"))
        return max([*traces, *([recorded] if recorded is not None else [])], default=None)

    def metric(self, stage: str, name: str) -> float | None:
        """Final value of a metric, from the first file that has it."""
        found = finite(mapping(self.summary.get("metrics")).get(f"{stage}/{name}"))
        if found is None and (points := self.metrics.get(f"{stage}/{name}")):
            found = points[1][-1]
        entry = f"{stage}{NO_MC}" if name.endswith(NO_MC) else stage
        for source in (self.calibration, self.uncertainty):
            if found is None:
                # In these files "rmse" is the calibration curve's.
                plain = name.removesuffix(NO_MC)
                key = {"calibration_rmse": "rmse", "rmse": ""}.get(plain, plain)
                found = finite(mapping(source.get(entry)).get(key))
        return found

    def num_points(self, stage: str) -> float | None:
        """Number of observations that a stage scored."""
        sources = (mapping(source.get(stage)) for source in (self.calibration, self.uncertainty))
        return next((n for source in sources if (n := finite(source.get("num_points"))) is not None), None)


def read_record(path: Path, *, with_pictures: bool = False, with_predictions: bool = True) -> Record:
    """Read a run folder.

    Args:
        path: the folder.
        with_pictures: read the pictures too, which are most of what a folder holds.
        with_predictions: read the tables of predictions, which are the longest.

    Raises:
        UserError: where there is no run.
    """
    _check(path)
    folder = RunFolder(path)
    problems: list[str] = []

    def attempt(name: str, read: Callable[[], T], fallback: T) -> T:
        try:
            return read()
        except UNREADABLE as error:
            problems.append(f"{name} cannot be read ({type(error).__name__}: {str(error)[:200]}); it was left out.")
            return fallback

    def entry(name: str) -> dict[str, Any]:
        value = attempt(name, lambda: folder.read_json(name), None)
        if value is not None and not isinstance(value, dict):
            problems.append(f"{name} holds no JSON object; it was left out.")
        return mapping(value)

    def rows(name: str) -> list[dict[str, str]]:
        return attempt(name, lambda: folder.read_table(name), [])

    text = attempt(runfolder.CONFIG, lambda: _text(path), "")
    diff = attempt(runfolder.CONFIG_DIFF, lambda: folder.read_json(runfolder.CONFIG_DIFF), None)
    gallery, maps = entry(runfolder.GALLERY), entry(runfolder.MAPS)
    stages = STAGES if with_predictions else ()
    wanted = [*gallery_pictures(gallery), *map_pictures(maps)] if with_pictures else []
    return Record(
        name=path.resolve().name,
        run=entry(runfolder.RUN),
        summary=entry(runfolder.SUMMARY),
        convergence=entry(runfolder.CONVERGENCE),
        calibration=entry(runfolder.CALIBRATION),
        uncertainty=entry(runfolder.UNCERTAINTY),
        band=entry(runfolder.BAND),
        selective=entry(runfolder.SELECTIVE),
        classes=entry(runfolder.CLASSES),
        gallery=gallery,
        maps=maps,
        pictures=attempt(runfolder.IMAGES, lambda: read_pictures(path, wanted, problems), {}),
        control=entry(runfolder.CONTROL),
        config=text,
        config_diff=dicts(diff) if isinstance(diff, list) else None,
        metrics=points(rows(runfolder.METRICS), "metric", "value"),
        dropout=points(rows(runfolder.DROPOUT), "layer", "p"),
        predictions={stage: found for stage in stages if (found := rows(runfolder.predictions_name(stage)))},
        problems=problems,
    )


def gallery_pictures(gallery: dict[str, Any]) -> list[str]:
    """Paths of the pictures that a gallery names, of the stage that is shown."""
    samples = next((found for stage in STAGES if (found := dicts(gallery.get(stage)))), [])
    return [str(sample.get("file")) for sample in samples]


def map_pictures(maps: dict[str, Any]) -> list[str]:
    """Paths of the pictures that maps name; the last steps first."""
    images = [image for stage in STAGES for image in dicts(mapping(maps.get(stage)).get("images"))]
    fixed = [str(image.get(kind)) for image in images for kind in FIXED]
    steps = [list(reversed(dicts(image.get("steps")))) for image in images]
    rounds = [entry for together in zip_longest(*steps) for entry in together if entry is not None]
    return [*fixed, *(str(entry.get(kind)) for entry in rounds for kind in CHANGING)]


def data_setting(config: str, key: str) -> str | None:
    """A plain setting of the ``data`` block of config.yaml; read by its lines, so that a report needs no YAML.

    >>> data_setting("data:\\n  name: yacht\\ntask:\\n  name: b\\n", "name")
    'yacht'
    """
    block = re.search(r"^data:[ \t]*\n((?:[ \t].*\n?|\n)*)", config, flags=re.MULTILINE)
    entry = re.search(rf"^[ \t]+{re.escape(key)}:[ \t]*(\S+)", block[1], flags=re.MULTILINE) if block else None
    return entry[1].strip("'\"") if entry else None


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts(value: Any) -> list[dict[str, Any]]:
    """The dicts in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def finite(value: Any) -> float | None:
    """A finite number, else None; numbers of JSON or texts of a table."""
    if value is None or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def points(rows: list[dict[str, str]], key: str, value: str) -> dict[str, Points]:
    """Rows in long format as one series per name, by step; rows without numbers are left out."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        step, number = finite(row.get("step")), finite(row.get(value))
        if step is not None and number is not None and row.get(key):
            # A resumed run repeats steps: the later row counts.
            found.setdefault(row[key], {})[step] = number
    ordered = {name: sorted(series.items()) for name, series in found.items()}
    return {name: ([step for step, _ in pairs], [p for _, p in pairs]) for name, pairs in ordered.items()}


def _text(path: Path) -> str:
    config = runfolder.own_file(path, runfolder.CONFIG)
    return config.read_text(encoding="utf-8") if config.is_file() else ""


def _check(path: Path) -> None:
    if not path.is_dir():
        raise UserError(f"{path} is no folder: give the run folder that train.py printed.")
    if any((path / name).is_file() for name in SIGNS):
        return
    inside = sorted({str(found.parent) for found in path.glob(f"*/{runfolder.RUN}")})
    hint = f" Runs inside of it: {', '.join(inside[:3])}{', ...' if len(inside) > 3 else ''}." if inside else ""
    raise UserError(f"{path} holds no run (none of {', '.join(SIGNS)}): give the folder of one run.{hint}")
