"""What figures need beside the rows: reliability, the course of p, maps of test images. Taken from run folders."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from concrete_dropout.report.layers import layers_of
from concrete_dropout.report.pictures import read_pictures
from concrete_dropout.report.record import CHANGING, Record, dicts, finite, mapping

from .cells import Row
from .experiments import HEAD, SEED, Experiment
from .folders import Run

KEEPING = ("camvid", "camvid_small")  # experiments whose figures need more than rows
NUM_BINS = 20  # of equal width, as the project's reliability curves have them
MAX_STEPS = 60  # of a layer and a run
MAX_IMAGES = 2
MAX_BYTES = 300_000  # of a picture
SHOWN = CHANGING  # what the network says of an image; the image itself and its labels belong to the data set
SOURCE = ("steps", "seconds", "commit", "hardware", "command", "study")


@dataclass(frozen=True)
class Beside:
    """A CSV file beside that of an experiment.

    Args:
        name: of the file, without its ending.
        within: columns that tell rows of one run apart.
        values: columns with what was measured.
    """

    name: str
    within: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that, with ``settings``, tell one row from another."""
        return (*HEAD, SEED, *self.within)

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return (*HEAD, "settings", SEED, *self.within, *self.values, "state", "started")


@dataclass(frozen=True)
class Kept:
    """What one run gives: rows by table, pictures by the names of their files."""

    rows: dict[Beside, list[Row]] = field(default_factory=dict)
    pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The files that it is for, without the experiment's name."""
        return ", ".join(table.name.rpartition("_")[2] for table, rows in self.rows.items() if rows)


NOTHING = Kept()


def calibration_table(experiment: Experiment) -> Beside:
    """Reliability of confidence on test data, by bins that are not empty."""
    return Beside(f"{experiment.name}_calibration", ("mc", "bin"), ("confidence", "frequency", "count"))


def history_table(experiment: Experiment) -> Beside:
    """The course of p of a few layers."""
    return Beside(f"{experiment.name}_history", ("depth", "step"), ("place", "layer", "init_p", "value", "converged"))


def sources_table(experiment: Experiment) -> Beside:
    """Where the courses come from: one row for each run."""
    return Beside(f"{experiment.name}_sources", (), SOURCE)


def maps_table(experiment: Experiment) -> Beside:
    """Images of the test part, whose pictures lie beside the file."""
    values = ("name", "steps", "wrong", "mutual_information", "expected_entropy")
    return Beside(f"{experiment.name}_maps", ("image",), (*values, "epistemic_scale", "aleatoric_scale", "classes"))


def picture_file(experiment: Experiment, image: str, kind: str) -> str:
    """Name of a picture in docs/results."""
    return f"{maps_table(experiment).name}_{image}_{kind}.png"


def keep(run: Run, record: Record, experiment: Experiment, shared: Row) -> Kept:
    """What a finished run gives beside its row.

    Args:
        run: finished.
        record: what its folder says.
        experiment: that it belongs to.
        shared: cells that all rows of the run have in common.
    """
    if experiment.name not in KEEPING:
        return NOTHING
    images, pictures = _maps(run, record, experiment)
    courses = _courses(run, record)
    own: dict[Beside, list[Row]] = {
        calibration_table(experiment): _reliability(record),
        history_table(experiment): courses,
        sources_table(experiment): [{}] if courses else [],
        maps_table(experiment): images,
    }
    rows = {
        table: [{column: {**shared, **row}.get(column, "") for column in table.columns} for row in found]
        for table, found in own.items()
        if found
    }
    return Kept(rows, pictures)


def evenly(count: int, most: int = MAX_STEPS) -> list[int]:
    """At most so many places of a list, evenly spaced, the first and the last among them.

    >>> evenly(9, 3), evenly(2, 3), evenly(1, 3)
    ([0, 4, 8], [0, 1], [0])
    """
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def shown_layers(names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """The layers that the paper's figure of convergence shows: place in words -> depth and name.

    >>> list(shown_layers("abcdefg").values()), list(shown_layers("abc"))
    ([(0, 'a'), (1, 'b'), (3, 'd'), (5, 'f'), (6, 'g')], ['first', 'second', 'last'])
    """
    count = len(names)
    places = {"first": 0, "last": count - 1, "second": 1, "second last": count - 2, "middle": count // 2}
    found: dict[int, str] = {}  # of a short network a layer has the first of its places
    for place, depth in places.items():
        if 0 <= depth < count:
            found.setdefault(depth, place)
    return {found[depth]: (depth, names[depth]) for depth in sorted(found)}


def _reliability(record: Record) -> list[Row]:
    sampled = record.run.get("dropout") != "none"  # without dropout there is one pass, under the plain name
    entries = {"true": "test", "false": "test_no_mc"} if sampled else {"false": "test"}
    rows = []
    for mc, name in entries.items():
        entry = mapping(record.calibration.get(name))
        curves = [entry.get(key) for key in ("confidence", "frequency", "share")]
        points = finite(entry.get("num_points"))
        if points is None or not all(isinstance(curve, list) for curve in curves):
            continue
        for values in zip(*curves, strict=False):
            confidence, frequency, share = map(finite, values)
            if confidence is None or frequency is None or share is None:
                continue
            place = min(int(confidence * NUM_BINS), NUM_BINS - 1)
            numbers = {"confidence": _text(confidence), "frequency": _text(frequency), "count": f"{share * points:.0f}"}
            rows.append({"mc": mc, "bin": str(place), **numbers})
    return rows


def _courses(run: Run, record: Record) -> list[Row]:
    if record.run.get("dropout") != "concrete":
        return []
    init_p = finite(run.setting("dropout.init_p"))
    learned = {
        layer.name: layer.converged for layer in layers_of(record) if layer.learned and layer.name in record.dropout
    }
    rows = []
    for place, (depth, layer) in shown_layers(list(learned)).items():
        steps, values = record.dropout[layer]
        facts = {"place": place, "layer": layer, "init_p": _text(values[0] if init_p is None else init_p)}
        verdict = learned[layer]  # None where nobody judged it
        facts["converged"] = "" if verdict is None else str(verdict).lower()
        for i in evenly(len(steps)):
            rows.append({"depth": str(depth), "step": f"{steps[i]:.0f}", **facts, "value": _text(values[i])})
    return rows


def _maps(run: Run, record: Record, experiment: Experiment) -> tuple[list[Row], dict[str, bytes]]:
    """Of images that are spread over the test part; of Concrete dropout, whose uncertainty is what there is to see."""
    entry = mapping(record.maps.get("test"))
    images = [image for image in dicts(entry.get("images")) if dicts(image.get("steps"))]
    if run.folder is None or record.run.get("dropout") != "concrete" or not images:
        return [], {}
    scales = mapping(entry.get("scales"))
    rows: list[Row] = []
    pictures: dict[str, bytes] = {}
    for image in images[:: max(1, len(images) // MAX_IMAGES)][:MAX_IMAGES]:
        index, last = str(image.get("index")), dicts(image["steps"])[-1]
        paths = {kind: str({**last, **image}.get(kind)) for kind in SHOWN}
        read = read_pictures(run.folder, paths.values(), [])
        found = {path: base64.b64decode(picture.uri.partition(",")[2]) for path, picture in read.items()}
        small = {path for path, content in found.items() if len(content) < MAX_BYTES}
        if not index.isdecimal() or not small.issuperset(paths.values()):
            continue  # half of the pictures of an image show nothing
        pictures |= {picture_file(experiment, index, kind): found[path] for kind, path in paths.items()}
        numbers = {key: _text(finite(last.get(key))) for key in ("wrong", "mutual_information", "expected_entropy")}
        ends = {f"{kind}_scale": _text(finite(scales.get(kind))) for kind in ("epistemic", "aleatoric")}
        name = str(image.get("name") or index)
        rows.append({"image": index, "name": name, "classes": _classes(entry), **numbers, **ends})
    return rows, pictures


def _classes(entry: dict[str, Any]) -> str:
    """Class=colour of every class."""
    names, colours = (value if isinstance(value := entry.get(key), list) else [] for key in ("names", "colours"))
    pairs = [(str(name).replace(" ", "_"), colour) for name, colour in zip(names, colours, strict=False)]
    return " ".join(f"{name}=#{''.join(f'{int(part):02x}' for part in colour)}" for name, colour in pairs)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"
