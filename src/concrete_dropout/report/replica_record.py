"""What a run folder says about each of its replicas: models that were trained as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from concrete_dropout import runfolder
from concrete_dropout.report.layers import Layer, layers_of
from concrete_dropout.report.record import UNREADABLE, Points, Record, dicts, finite, mapping, points, read_record
from concrete_dropout.report.statistics import Summary, summarise
from concrete_dropout.report.text import plain
from concrete_dropout.runfolder import REPLICA_LABELS, REPLICAS, RunFolder

NUM_DATA, INIT_P, SPLIT, SEED = "data.num_data", "dropout.init_p", "data.split", "seed"
# Replicas that differ in these alone are repeats of one experiment: their mean means something.
REPEATS = (SPLIT, SEED, "data.seed")
WORDS = {NUM_DATA: "N", INIT_P: "initial p", SPLIT: "split", SEED: "seed"}


@dataclass(frozen=True)
class Replica:
    """One of the models.

    Args:
        index: its place in the batch.
        labels: config key -> value, as text, for the keys in which replicas differ.
        scalars: "test/rmse" etc. -> value; what is no finite number is left out.
        p: layer -> probability at the end.
        initial_p: layer -> probability at the start.
        converged: None where nobody judged it.
        num_train: number of its training points.
    """

    index: int
    labels: dict[str, str]
    scalars: dict[str, float] = field(default_factory=dict)
    p: dict[str, float] = field(default_factory=dict)
    initial_p: dict[str, float] = field(default_factory=dict)
    converged: bool | None = None
    num_train: float | None = None


@dataclass(frozen=True)
class Replicas:
    """All replicas of a run folder, with the record of the run as a whole, whose p are means over the replicas."""

    record: Record
    keys: tuple[str, ...]
    rows: tuple[Replica, ...]
    layers: tuple[Layer, ...]
    trajectories: dict[str, dict[int, Points]]
    expected: int

    @property
    def stage(self) -> str:
        """The data that headline numbers are about: "test" where a replica was scored on it, else "val"."""
        tested = any(name.startswith("test/") for row in self.rows for name in row.scalars)
        return "test" if tested or self.record.stage == "test" else "val"

    @property
    def group_keys(self) -> tuple[str, ...]:
        """Keys that vary and make another experiment, not another repeat."""
        varied = (key for key in self.keys if len({row.labels.get(key) for row in self.rows}) > 1)
        return tuple(key for key in varied if key not in REPEATS)

    @property
    def learned(self) -> bool:
        """Whether p is learned."""
        return any(layer.learned for layer in self.layers)

    def groups(self, *keys: str) -> dict[tuple[str, ...], list[Replica]]:
        """Replicas by their values of some keys, in the order of the numbers among these."""
        found: dict[tuple[str, ...], list[Replica]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.labels.get(key, "") for key in keys), []).append(row)
        return dict(sorted(found.items(), key=lambda item: [_order(value) for value in item[0]]))

    def score(self, name: str, rows: Iterable[Replica] | None = None) -> Summary | None:
        """Mean and standard error of a metric of the headline stage, over all replicas or some."""
        metric = f"{self.stage}/{name}"
        return summarise(row.scalars.get(metric) for row in (self.rows if rows is None else rows))

    def probability(self, layer: str, rows: Iterable[Replica] | None = None) -> Summary | None:
        """Mean and spread of a layer's p at the end."""
        return summarise(row.p.get(layer) for row in (self.rows if rows is None else rows))

    @property
    def num_converged(self) -> int:
        """Replicas whose p have stopped moving."""
        return sum(row.converged is True for row in self.rows)

    @property
    def num_moving(self) -> int:
        """Replicas whose p were still moving."""
        return sum(row.converged is False for row in self.rows)

    @property
    def unscored(self) -> list[Replica]:
        """Replicas without a likelihood where others have one: they diverged, or their row is damaged."""
        names = [f"{self.stage}/{name}" for name in ("log_likelihood", "nll", "rmse")]
        columns = [name for name in names if any(name in row.scalars for row in self.rows)]
        return [row for row in self.rows if any(name not in row.scalars for name in columns)]


def is_replicated(path: Path) -> bool:
    """Whether a run folder holds several models that were trained as one."""
    return (path / REPLICA_LABELS).is_file() or (path / REPLICAS).is_file()


def read_replicas(path: Path) -> Replicas:
    """Read a replicated run folder; damaged files become ``record.problems``.

    Raises:
        UserError: where there is no run.
    """
    record = read_record(path)
    folder = RunFolder(path)

    def attempt(name: str, read: Callable[[], Any], fallback: Any) -> Any:
        try:
            return read()
        except UNREADABLE as error:
            if not any(problem.startswith(f"{name} ") for problem in record.problems):
                record.problems.append(f"{name} cannot be read ({type(error).__name__}: {str(error)[:200]}).")
            return fallback

    described = mapping(attempt(REPLICA_LABELS, lambda: folder.read_json(REPLICA_LABELS), {}))
    table = attempt(REPLICAS, lambda: folder.read_table(REPLICAS), [])
    traces = attempt(runfolder.DROPOUT, lambda: folder.read_table(runfolder.DROPOUT), [])
    return assemble(record, described, table, traces)


def assemble(
    record: Record, described: dict[str, Any], table: list[dict[str, str]], traces: list[dict[str, str]]
) -> Replicas:
    """Replicas from the content of their files; a run that is still going has labels and traces only."""
    labels = [{str(key): plain(value) for key, value in entry.items()} for entry in dicts(described.get("labels"))]
    named = described.get("keys")
    keys = tuple(str(key) for key in named) if isinstance(named, list) else ()
    keys = keys or tuple(dict.fromkeys(key for entry in labels for key in entry))
    trajectories = _trajectories(traces)
    rows = {index: Replica(index, entry) for index, entry in enumerate(labels)}
    for place, row in enumerate(table):
        found = finite(row.get("replica"))
        index = int(found) if found is not None else place
        # The table has every key as a column too: it counts where replicas.json is damaged.
        guessed = keys or tuple(key for key in WORDS if key in row)
        known = rows[index].labels if index in rows else {}
        rows[index] = _replica(index, row, {**{key: row[key] for key in guessed if row.get(key)}, **known})
        keys = guessed
    for layer, traced in trajectories.items():
        for index, (_, values) in traced.items():
            rows.setdefault(index, Replica(index, {}))
            rows[index].p.setdefault(layer, values[-1])
            rows[index].initial_p.setdefault(layer, values[0])
    averaged = replace(record, dropout={name: mean_points(traced.values()) for name, traced in trajectories.items()})
    ordered = tuple(rows[index] for index in sorted(rows))
    expected = int(finite(record.run.get("replicas")) or 0)
    return Replicas(averaged, keys, ordered, _layers(averaged, ordered), trajectories, max(expected, len(ordered)))


def mean_points(series: Iterable[Points]) -> Points:
    """Mean over replicas at every step that all of them have; steps that a kill cut out of some are left out."""
    maps = [dict(zip(steps, values, strict=True)) for steps, values in series]
    shared = sorted(set.intersection(*(set(entry) for entry in maps))) if maps else []
    return shared, [sum(entry[step] for entry in maps) / len(maps) for step in shared]


def _replica(index: int, row: dict[str, str], labels: dict[str, str]) -> Replica:
    def numbers(*prefixes: str, keep: bool = False) -> dict[str, float]:
        pairs = [(name, finite(text)) for name, text in row.items() if name.startswith(prefixes)]
        return {name if keep else name.split("/", 1)[1]: value for name, value in pairs if value is not None}

    verdict = {"true": True, "1": True, "false": False, "0": False}.get((row.get("converged") or "").strip().lower())
    scalars = numbers("test/", "val/", keep=True)
    for stage in ("test", "val"):
        # One is the other upside down: a reader finds either.
        if f"{stage}/log_likelihood" not in scalars and f"{stage}/nll" in scalars:
            scalars[f"{stage}/log_likelihood"] = -scalars[f"{stage}/nll"]
    return Replica(index, labels, scalars, numbers("p/"), numbers("initial_p/"), verdict, finite(row.get("num_train")))


def _trajectories(rows: list[dict[str, str]]) -> dict[str, dict[int, Points]]:
    by_replica: dict[int, list[dict[str, str]]] = {}
    for row in rows:
        index = finite(row.get("replica"))
        if index is not None:
            by_replica.setdefault(int(index), []).append(row)
    found: dict[str, dict[int, Points]] = {}
    for index, entries in sorted(by_replica.items()):
        for layer, series in points(entries, "layer", "p").items():
            found.setdefault(layer, {})[index] = series
    return found


def _layers(record: Record, rows: tuple[Replica, ...]) -> tuple[Layer, ...]:
    """The layers in the order of depth, with means over replicas in place of one model's p."""
    known = {layer.name: layer for layer in layers_of(record)}
    kind = str(record.run.get("dropout") or "concrete")
    if kind == "none":
        return ()
    for name in dict.fromkeys(name for row in rows for name in row.p):
        known.setdefault(name, Layer(name, kind, None, None, None, None, None, (), None))
    return tuple(_averaged(layer, rows) for layer in known.values())


def _averaged(layer: Layer, rows: tuple[Replica, ...]) -> Layer:
    final = summarise(row.p.get(layer.name) for row in rows)
    initial = summarise(row.initial_p.get(layer.name) for row in rows)
    return replace(
        layer,
        final=final.mean if final else layer.final,
        initial=initial.mean if initial else layer.initial,
    )


def _order(value: str) -> tuple[int, float, str]:
    number = finite(value)
    return (0, number, "") if number is not None else (1, 0.0, value)
