"""Reports: a run folder in, one self-contained HTML file out. Knows files and figures, not torch.

``build_run_report`` takes any folder: of one run, of replicas that were trained as one batch, of a study.

The page and its parts (``page``, ``Section``, ``cards``, ``table``, ``figure``, ...) serve other reports as well.
"""

from concrete_dropout.report.components import Card, Section, bullets, cards, code, details, figure, grid, notice, table
from concrete_dropout.report.html import Html, escape, join, tag
from concrete_dropout.report.page import page
from concrete_dropout.report.replicas import build_replicas_report
from concrete_dropout.report.run import build_run_report
from concrete_dropout.report.study import build_study_report

__all__ = [
    "Card",
    "Html",
    "Section",
    "build_replicas_report",
    "build_run_report",
    "build_study_report",
    "bullets",
    "cards",
    "code",
    "details",
    "escape",
    "figure",
    "grid",
    "join",
    "notice",
    "page",
    "table",
    "tag",
]
