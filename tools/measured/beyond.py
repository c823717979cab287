"""Sections that belong to no experiment of the paper, in their order on the page."""

from __future__ import annotations

from pathlib import Path

from .parts import Part
from .sheets import TUNING
from .store import read_rows
from .tuning_section import TITLE as TUNING_TITLE
from .tuning_section import tuning_part


def beyond_parts(results: Path) -> list[tuple[str, Part]]:
    """Title and content of each, from the CSV files of a folder."""
    return [(TUNING_TITLE, tuning_part(read_rows(results, TUNING)))]
