"""Sections that belong to no experiment of the paper, in their order on the page."""

from __future__ import annotations

from pathlib import Path

from . import grid_section, masks_section, shift_sections, train_samples_section, tuning_section
from .experiments import EXPERIMENTS
from .parts import Part
from .sheets import GRID_COST, MASKS, SHIFT, TUNING
from .store import read_rows


def beyond_parts(results: Path) -> list[tuple[str, Part]]:
    """Title and content of each, from the CSV files of a folder."""
    shifted = read_rows(results, SHIFT)
    known = [experiment for experiment in EXPERIMENTS if train_samples_section.has(experiment)]
    trained = [(experiment, read_rows(results, experiment)) for experiment in known]
    return [
        (grid_section.TITLE, grid_section.grid_part(read_rows(results, GRID_COST))),
        (train_samples_section.TITLE, train_samples_section.train_samples_part(trained)),
        (masks_section.TITLE, masks_section.masks_part(read_rows(results, MASKS))),
        (shift_sections.ELSEWHERE, shift_sections.elsewhere_part(shifted)),
        (shift_sections.CORRUPTED, shift_sections.corrupted_part(shifted)),
        (tuning_section.TITLE, tuning_section.tuning_part(read_rows(results, TUNING))),
    ]
