"""The page that all reports share: head, list of contents, sections, and plotly.js where there are figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from concrete_dropout.report.assets import SCRIPT, STYLE, packed_plotly, policy
from concrete_dropout.report.components import Section
from concrete_dropout.report.html import Html, join, tag

FOOTER = "Built from the files of the run folder alone. This page makes no network requests."


def page(
    title: str,
    sections: Sequence[Section],
    *,
    kind: str = "Report",
    lead: str = "",
    facts: Iterable[str] = (),
    notices: Iterable[Html] = (),
    footer: str = FOOTER,
) -> str:
    """A complete HTML document that needs nothing but itself.

    Args:
        title: heading of the page.
        sections: in their order; the list of contents is made from them.
        kind: small line above the title, for example "Run report".
        lead: one or two sentences below the title.
        facts: short facts on one line.
        notices: what a reader must know before the numbers.
        footer: last line.

    >>> "<h2 id=\\"a\\">A &lt; B</h2>" in page("Title", [Section("a", "A < B", "text")])
    True
    """
    head = [
        tag("meta", charset="utf-8"),
        # First of all: it holds for what comes after it.
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title if not kind else f"{title} · {kind}"),
        # An empty icon: browsers would look for one beside the page.
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(STYLE)),
    ]
    body = [
        tag("header", *_header(title, kind, lead, list(facts)), *notices, _contents(sections)),
        tag("main", join(section.render() for section in sections)),
        tag("footer", tag("p", footer)),
        *_scripts(sections),
    ]
    document = tag("html", tag("head", join(head)), tag("body", join(body)), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"


def _header(title: str, kind: str, lead: str, facts: list[str]) -> list[Html]:
    return [
        tag("p", kind, class_="kind") if kind else Html(),
        tag("h1", title),
        tag("p", lead, class_="lead") if lead else Html(),
        tag("ul", *(tag("li", fact) for fact in facts), class_="facts") if facts else Html(),
        tag("noscript", tag("div", "Figures need JavaScript. All numbers are in the tables.", class_="notice info")),
    ]


def _contents(sections: Sequence[Section]) -> Html:
    links = (tag("li", tag("a", section.heading, href=f"#{section.key}")) for section in sections)
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _scripts(sections: Sequence[Section]) -> list[Html]:
    has_figures = any('<div class="plot"' in section.body for section in sections)
    packed = tag("script", Html(packed_plotly()), type="text/plain", id="plotly") if has_figures else Html()
    return [packed, tag("script", Html(SCRIPT))]
