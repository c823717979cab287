"""The files of an evaluation, renewed after every pass: what a kill leaves is whole, and goes on from there."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from concrete_dropout.errors import UserError
from concrete_dropout.evaluation.observers import Arrays
from concrete_dropout.evaluation.passes import Outcome
from concrete_dropout.evaluation.plan import CLEAN, Plan, Unit
from concrete_dropout.runfolder import EVALUATION, EVALUATION_TABLE, RunFolder

SCORES = "scores"
KEYS = ("subject", "part", "mask", "repeat", "shift", "severity", "samples", "points")


class Store:
    """``results.json``, ``results.csv`` (one row per combination) and ``scores/*.npz`` in a folder.

    Args:
        folder: of the evaluation.
        facts: about it: what is evaluated ("identity"), the command, and so on.

    Raises:
        UserError: the folder has the results of another evaluation.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.files = RunFolder(folder)
        before = self._read()
        self.records: dict[str, dict[str, Any]] = {record["key"]: record for record in before.get("passes", [])}
        if self.records and before.get("identity") != facts["identity"]:
            raise UserError(
                f"out={folder} has results of another evaluation (other checkpoints, data.* or seed): name another "
                "folder, or leave out= away for a new one"
            )
        self.facts = {**facts, "started": before.get("started") or facts.get("started")}

    def _read(self) -> dict[str, Any]:
        try:
            found = self.files.read_json(EVALUATION) or {}
            return found if isinstance(found, dict) else {}
        except ValueError as error:
            raise UserError(f"{self.files.path / EVALUATION} is damaged: name another folder with out=...") from error

    def is_done(self, unit: Unit, plan: Plan) -> bool:
        """Whether there is everything that the unit would give."""
        record = self.records.get(unit.key)
        if record is None or not set(unit.counts) <= {row["samples"] for row in record["rows"]}:
            return False
        rows = {row["samples"]: row for row in record["rows"]}
        if unit.shift != CLEAN:
            return True
        fitted = "factor" if unit.part == "val" else "fitted"
        for count in {plan.counts[-1], 0} & set(unit.counts):
            if plan.temperature_scaling and unit.repeat == 0 and fitted not in rows[count]:
                return False
        told = plan.has_shifts and unit.is_reference and unit.part == plan.shift_part
        return not told or self.scores(unit, self.shift_count(unit, plan)) is not None

    @staticmethod
    def shift_count(unit: Unit, plan: Plan) -> int:
        """The number of samples that shifted data are told with."""
        return plan.shift_samples if unit.mask else 0

    def factor(self, unit: Unit, count: int) -> float | None:
        """What was fitted on validation data for the same masks and number of samples."""
        key = Unit(unit.subject, "val", unit.mask, 0, ()).key
        rows = self.records.get(key, {}).get("rows", [])
        return next((row["factor"] for row in rows if row["samples"] == count and "factor" in row), None)

    def scores(self, unit: Unit, count: int) -> Arrays | None:
        """Scores of clean data, or None where there are none yet."""
        path = self._scores_path(unit, count)
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}

    def add(self, unit: Unit, outcome: Outcome) -> None:
        """Write what a pass found."""
        if unit.shift == CLEAN:
            for count, arrays in outcome.arrays.items():
                content = io.BytesIO()
                np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
                path = self._scores_path(unit, count)
                self.files.write_bytes(str(path.relative_to(self.files.path)), content.getvalue())
        self.records[unit.key] = outcome.record
        self.write()

    def write(self, **facts: Any) -> None:
        """Renew both files."""
        self.facts |= facts
        self.files.write_json(EVALUATION, {**self.facts, "passes": list(self.records.values())})
        self.files.write_text(EVALUATION_TABLE, self._table())

    def _scores_path(self, unit: Unit, count: int) -> Path:
        label = f"{unit.subject}-{unit.part}-{unit.mask or 'none'}-{count}"
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in label)[-80:]
        name = f"{safe}-{zlib.crc32(label.encode()):08x}"  # names that differ stay different
        return self.files.path / SCORES / f"{name}.npz"

    def _table(self) -> str:
        rows = [
            {
                **{name: record.get(name) for name in KEYS[:6]},
                "samples": row["samples"],
                "points": row.get("points"),
                **row.get("metrics", {}),
                **_flat("", row.get("detection", {})),
                **_flat("scaled_", {"": row.get("fitted", {}).get("after", {})}),
                **({"factor": row["fitted"]["factor"]} if "fitted" in row else {}),
            }
            for record in self.records.values()
            for row in record["rows"]
        ]
        header = list(dict.fromkeys([*KEYS, *(name for row in rows for name in row)]))
        text = io.StringIO()
        writer = csv.DictWriter(text, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _flat(prefix: str, nested: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """{"epistemic": {"auroc": ...}} as {"auroc_epistemic": ...}."""
    return {
        f"{prefix}{name}_{group}".rstrip("_"): value for group, found in nested.items() for name, value in found.items()
    }
