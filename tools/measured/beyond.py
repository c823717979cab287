"""Sections that belong to no experiment of the paper, in their order on the page."""

from __future__ import annotations

from pathlib import Path

from .grid_section import TITLE as GRID_TITLE
from .grid_section import grid_part
from .parts import Part
from .sheets import GRID_COST, TUNING
from .store import read_rows
from .tuning_section import TITLE as TUNING_TITLE
from .tuning_section import tuning_part


def beyond_parts(results: Path) -> list[tuple[str, Part]]:
    """Title and content of each, from the CSV files of a folder."""
    return [
        (GRID_TITLE, grid_part(read_rows(results, GRID_COST))),
        (TUNING_TITLE, tuning_part(read_rows(results, TUNING))),
    ]
