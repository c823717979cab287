"""Maps of test images on the page: what the network said, and was unsure of; with a key to the colours."""

from __future__ import annotations

from html import escape

from concrete_dropout.plots.pictures import RIGHT, VOID, WRONG, scale_colours
from concrete_dropout.report.record import finite
from concrete_dropout.report.text import number, percent

from .axes import width_of
from .cells import Row
from .experiments import Experiment
from .kept import picture_file
from .tables import code, table

WORDS = {
    "prediction": "prediction",
    "epistemic": "epistemic",
    "aleatoric": "aleatoric",
    "error": "errors",
}
COLUMNS = 2  # of pictures
WIDTH, ROW = 700, 22
BAR = 200  # pixels of the scale of colours
PIECES = 24  # of that scale


def maps_lines(experiment: Experiment, rows: list[Row]) -> tuple[list[str], dict[str, str]]:
    """The part of the section, and its key."""
    head = ["### Uncertainty maps", ""]
    if not rows:
        return [*head, "**Not made yet.** They come with a Concrete run of the table above.", ""], {}
    first, file = rows[0], f"{experiment.name}_maps_key.svg"
    made = f" and {code(first['settings'])}" if first["settings"] else ""
    text = (
        f"Test images of the Concrete run with seed {first['seed']}{made}: epistemic uncertainty is the mutual "
        "information, aleatoric uncertainty the expected entropy of the samples. The photographs and their labels are "
        "CamVid's and not copied here; the run's own report shows them beside the maps. Numbers: "
        f"[{experiment.name}_maps.csv](results/{experiment.name}_maps.csv)."
    )
    lines = [*head, text, ""]
    for row in rows:
        lines += _image(experiment, row)
    return [*lines, f"![key to the colours](results/{file})", ""], {file: key(first)}


def key(row: Row) -> str:
    """Colours of the classes, and the scale of both uncertainties, as an SVG document."""
    pairs = [entry.rpartition("=") for entry in row["classes"].split()]
    swatches = [(name.replace("_", " "), colour) for name, _, colour in pairs]
    swatches += [("void", _paint(VOID)), ("wrong", _paint(WRONG)), ("right", _paint(RIGHT))]
    parts, left, top = [], 10.0, 6
    for name, colour in swatches:
        needed = 20 + width_of(name) + 12
        if left + needed > WIDTH:
            left, top = 10.0, top + ROW
        parts.append(
            f'<rect x="{left:.0f}" y="{top}" width="14" height="14" fill="{escape(colour)}" stroke="#adb5bd"/>'
        )
        parts.append(f'<text x="{left + 20:.0f}" y="{top + 12}">{escape(name)}</text>')
        left += needed
    top += ROW + 6
    for i, shade in enumerate(scale_colours(PIECES).tolist()):
        width = BAR / PIECES
        parts.append(
            f'<rect x="{10 + i * width:.1f}" y="{top}" width="{width + 0.5:.1f}" height="12" fill="{_paint(shade)}"/>'
        )
    ends = {kind: finite(row[f"{kind}_scale"]) for kind in ("epistemic", "aleatoric")}
    words = " or ".join(f"{number(end, 2)} ({kind})" for kind, end in ends.items() if end is not None)
    parts.append(f'<text x="{10 + BAR + 10}" y="{top + 11}">from 0 to {escape(words)} nats, by its root</text>')
    height = top + ROW
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([svg, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def _image(experiment: Experiment, row: Row) -> list[str]:
    """Four pictures in two rows of a table."""
    told = {
        "error": f": {percent(wrong, 1)} of the pixels" if (wrong := finite(row["wrong"])) is not None else "",
        "epistemic": _mean(row["mutual_information"]),
        "aleatoric": _mean(row["expected_entropy"]),
    }
    kinds = list(WORDS)
    titles = [f"{WORDS[kind]}{told.get(kind, '')}" for kind in kinds]
    pictures = [f"![{WORDS[k]} of {row['name']}](results/{picture_file(experiment, row['image'], k)})" for k in kinds]
    # A table has one header; the titles of the second row look like it.
    second = [f"**{words}**" for words in titles[COLUMNS:]]
    return [f"{row['name']}:", "", *table(titles[:COLUMNS], [pictures[:COLUMNS], second, pictures[COLUMNS:]])]


def _mean(text: str) -> str:
    value = finite(text)
    return f": mean {number(value, 2)} nats" if value is not None else ""


def _paint(colour: tuple[int, int, int] | list[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
