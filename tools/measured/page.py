"""docs/results.md, its figures and the README's table, from the CSV files alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from concrete_dropout.report.text import MISSING

from .agent_section import agent_part
from .beyond import beyond_parts
from .camvid_section import camvid_part
from .cells import Row
from .commits_section import commits_lines
from .experiments import EXPERIMENTS, Experiment
from .findings import CLAIMS, read_findings
from .kept_section import with_figures
from .parts import BEYOND, NOT_RUN, SHORT, Part
from .published import Published, read_published
from .sheets import TUNING
from .store import read_rows
from .study_sections import study_part
from .tables import table
from .tuning_section import PAGE as TRIED
from .tuning_section import tried_page
from .uci_section import uci_part

PAGE = Path("docs/results.md")
RESULTS = Path("docs/results")
README = Path("README.md")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
MAKERS: dict[str, Callable[[Experiment, list[Row], Published], Part]] = {
    "uci": uci_part,
    "uci_rmse": uci_part,
    "camvid": camvid_part,
    "camvid_small": camvid_part,
    "cartpole": agent_part,
}
CONCRETE = SHORT.index("Concrete")
INTRO = """# Results

Every experiment of the paper (Gal, Hron and Kendall, Concrete Dropout) beside what this project measured. This page is
made by `make results` from the files of `docs/results/`, and a test compares the two: no number here is typed by hand.
Rows are taken from run folders by `python tools/results.py add FOLDER`, the paper's numbers stand in
[paper.csv](results/paper.csv) with their places. Many rows are of shorter runs than the whole experiments, and the
sections say so. `make reproduce` runs the whole experiments, and puts their rows beside.

Means are over seeds or splits, with their standard errors. Each Concrete result stands beside p = 0 and a fixed p
where these were run; a p that has not converged is no result, and the tables say where that is so. Converged means
that p no longer moves in the last fifth of training. The learning rate falls to zero there, so that a p which stands
still may have run out of steps: runs from several initial values tell more. At the end of every section are the
commands of its runs, with commits, hardware and times; a commit with a plus sign had changes that were not committed.
"""


def build(root: Path) -> list[Path]:
    """Write what ``made`` says, and remove figures that are no longer made; returns the files."""
    files = made(root)
    for old in (root / RESULTS).glob("*.svg"):
        if old not in files:
            old.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def made(root: Path) -> dict[Path, str]:
    """File -> its text: the page, figures, and the README where it has a place for the table."""
    published = read_published(root / RESULTS)
    parts = [(experiment.title, _part(experiment, root, published)) for experiment in EXPERIMENTS]
    parts += beyond_parts(root / RESULTS)
    findings = read_findings(root, [title for title, _ in parts])
    lines = [INTRO, "## In short", "", *short(parts)]
    lines += [f"## {CLAIMS}", "", *findings[CLAIMS]] if CLAIMS in findings else []
    for title, part in parts:
        said = ["### What we found", "", *findings[title]] if title in findings else []
        lines += [f"## {title}", "", *said, *part.lines]
    lines += commits_lines(root / RESULTS)
    files = {root / PAGE: "\n".join(lines).rstrip("\n") + "\n"}
    tried = tried_page(read_rows(root / RESULTS, TUNING))
    files |= {root / RESULTS / TRIED: tried} if tried else {}
    files |= {root / RESULTS / name: svg for _, part in parts for name, svg in part.figures.items()}
    readme = root / README
    if readme.is_file() and BEGIN in (text := readme.read_text(encoding="utf-8")):
        inside = "\n".join([BEGIN, *short(parts, in_readme=True), END])
        files[readme] = re.sub(f"{BEGIN}.*?{END}", lambda _: inside, text, count=1, flags=re.DOTALL)
    return files


def short(parts: list[tuple[str, Part]], in_readme: bool = False) -> list[str]:
    """The short version: lines for each section that has them, which lead there; in the README those with results."""
    page = f"docs/{PAGE.name}" if in_readme else ""
    names = {title: f"[{title}]({page}#{_anchor(title)})" for title, _ in parts}
    kinds = [[names[title], *line] for title, part in parts for line in (part.short, *part.also) if line]
    kinds = [line for line in kinds if not in_readme or line[CONCRETE] not in (NOT_RUN, MISSING)]
    beyond = [[names[title], *part.beyond] for title, part in parts if part.beyond]
    return table(SHORT, kinds) + (
        ["Beyond the paper, on other questions than the kind of dropout:", "", *table(BEYOND, beyond)] if beyond else []
    )


def _part(experiment: Experiment, root: Path, published: Published) -> Part:
    part = MAKERS.get(experiment.name, study_part)(experiment, read_rows(root / RESULTS, experiment), published)
    return with_figures(part, experiment, root / RESULTS)


def _anchor(title: str) -> str:
    """The address of a heading, as Markdown makes it.

    >>> _anchor("CamVid, a small FC-DenseNet for CPUs")
    'camvid-a-small-fc-densenet-for-cpus'
    """
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
