"""The page itself: one HTML file with its style and script inside, and plotly.js beside it."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

from plotly.offline import get_plotlyjs

from concrete_dropout.dashboard.pack import digest, replace_file
from concrete_dropout.report.html import Html, join, tag

INDEX = "index.html"
WEB = Path(__file__).parent / "web"
SCRIPTS = ("data.js", "dom.js", "model.js", "table.js", "figures.js", "views.js", "compare.js", "main.js")
PANELS = ("runs", "p", "calibration", "pictures", "compare", "studies")
EXAMPLES = ("digits", "test/nll<0.3", "init_p>=0.1", "state!=finished", "optim.p_lr=0.02")


def write(folder: Path) -> Path:
    """Write the page and plotly.js where they are not there yet; data come on their own."""
    plotly = f"plotly-{digest(get_plotlyjs())}.js"
    if not (folder / plotly).is_file():
        replace_file(folder / plotly, get_plotlyjs().encode())
        for old in folder.glob("plotly-*.js"):
            if old.name != plotly:
                old.unlink(missing_ok=True)
    content = document(plotly).encode()
    index = folder / INDEX
    if not index.is_file() or index.read_bytes() != content:
        replace_file(index, content)
    return index


@functools.cache
def app() -> str:
    """The script of the page."""
    parts = "\n".join((WEB / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def policy() -> str:
    """Content security policy: no script but the page's own and the files beside it, no request to anywhere else."""
    own = base64.b64encode(hashlib.sha256(app().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{own}' 'self' file:; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def document(plotly: str) -> str:
    """The HTML of the page; ``plotly`` is the name of the file beside it."""
    head = [
        tag("meta", charset="utf-8"),
        # First of all: it holds for what comes after it.
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", "Dashboard · Concrete dropout"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html((WEB / "style.css").read_text(encoding="utf-8"))),
    ]
    body = [
        tag("header", *_header()),
        tag("main", *_main()),
        tag("footer", tag("p", "Built from the files of the run folders alone. This page makes no network requests.")),
        tag("script", Html(app())),
    ]
    made = tag("html", tag("head", join(head)), tag("body", join(body)), lang="en", data_plotly=plotly)
    return f"<!DOCTYPE html>\n{made}\n"


def _header() -> list[Html]:
    return [
        tag("p", "Concrete dropout", class_="kind"),
        tag("h1", "Dashboard"),
        tag("p", id="facts", class_="facts"),
        tag("noscript", tag("p", "The dashboard needs JavaScript. Every run has a report.html with its numbers.")),
        tag("ul", id="states", class_="chips", aria_label="States"),
        tag("form", *_filters(), id="filters", class_="filters", role="search"),
        tag(
            "p",
            "Words, or comparisons: ",
            *(part for example in EXAMPLES for part in (tag("code", example), " ")),
            "· press / to search",
            class_="help",
        ),
        tag("div", id="tabs", role="tablist", aria_label="Views"),
    ]


def _filters() -> list[Html]:
    stages = [tag("option", "test", value="test"), tag("option", "validation", value="val")]
    return [
        tag(
            "label",
            "Search",
            tag("input", type="search", id="q", spellcheck="false", autocomplete="off"),
            class_="search",
        ),
        tag("label", "Experiment", tag("select", id="experiment")),
        tag("label", "Dropout", tag("select", id="dropout")),
        tag("label", "Study or sweep", tag("select", id="group")),
        tag("label", "Numbers of", tag("select", *stages, id="stage")),
        tag("button", "Reset", type="button", id="reset"),
    ]


def _main() -> list[Html]:
    inside = [tag("div", id="bar", class_="bar"), tag("div", id="table")]
    return [
        tag("div", id="tray", class_="tray"),
        *(
            tag(
                "div",
                *(inside if key == "runs" else []),
                id=f"panel-{key}",
                role="tabpanel",
                aria_labelledby=f"tab-{key}",
            )
            for key in PANELS
        ),
    ]
