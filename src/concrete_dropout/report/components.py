"""The parts of a page: sections, cards, tables, figures, notices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from concrete_dropout.report.html import Html, escape, join, json_script, tag

Tone = Literal["info", "good", "warning", "bad"]


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading, which the list of contents links to.

    Args:
        key: name of its anchor, letters and dashes.
        heading: short text.
        body: markup, or text that is escaped.
    """

    key: str
    heading: str
    body: str

    def render(self) -> Html:
        """The section as markup."""
        heading = tag("h2", self.heading, id=self.key)
        return tag("section", heading, escape(self.body), aria_labelledby=self.key)


def guarded(build: Callable[[], Section], key: str, heading: str) -> Section:
    """A section, or a sentence in its place: a file of an unforeseen shape costs one section, not the report."""
    try:
        return build()
    except Exception as error:
        text = f"This section could not be built from the run's files ({type(error).__name__}: {str(error)[:200]})."
        return Section(key, heading, paragraph(text))


@dataclass(frozen=True)
class Card:
    """One headline number.

    Args:
        label: what it is.
        value: the number as text.
        unit: beside the number.
        meaning: one sentence that says how to read it.
    """

    label: str
    value: str
    unit: str = ""
    meaning: str = ""


def cards(items: Iterable[Card]) -> Html:
    """Headline numbers side by side."""
    return tag("dl", *(_card(item) for item in items), class_="cards")


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str,
    *,
    numeric: Collection[int] = (),
    words: Collection[int] = (),
) -> Html:
    """A table in a box of its own, which scrolls where the page is narrow.

    Args:
        header: of the columns.
        rows: of text or markup; the first column heads its row.
        caption: above the table.
        numeric: indices of columns that are aligned to the right.
        words: indices of columns of running text, which may be broken into lines.
    """
    classes = {**dict.fromkeys(numeric, "number"), **dict.fromkeys(words, "words")}
    head = tag("tr", *(tag("th", name, scope="col", class_=classes.get(i)) for i, name in enumerate(header)))
    body = [
        tag(
            "tr",
            *(
                tag("td" if i else "th", cell, scope=None if i else "row", class_=classes.get(i))
                for i, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    whole = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", join(body)))
    # Focusable, so that it can be scrolled without a mouse.
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(made: Any, caption: str = "", alt: str | None = None) -> Html:
    """A plotly figure, drawn when the page opens.

    Args:
        made: a plotly Figure.
        caption: below the figure: what to see in it. None where title and axes say it all.
        alt: what a screen reader says; the caption by default.
    """
    height = int(made.layout.height or 380)
    waiting = tag("p", "This figure is drawn by JavaScript.", class_="waiting")
    box = tag("div", waiting, class_="plot", role="img", aria_label=alt or caption, style=f"height:{height}px")
    return tag("figure", box, tag("figcaption", caption) if caption else None, json_script(made.to_json()))


def grid(items: Iterable[Html]) -> Html:
    """Figures in two columns where there is room."""
    return tag("div", *items, class_="grid")


def notice(tone: Tone, title: str, body: object = "") -> Html:
    """A box at the top of the page or of a section; the word says what the colour says."""
    return tag("div", tag("strong", title), tag("div", body) if body else "", class_=f"notice {tone}", role="note")


def details(summary: str, body: object) -> Html:
    """Something that is folded away on screen and open in print."""
    return tag("details", tag("summary", summary), body)


def code(text: str) -> Html:
    """Lines to read or copy."""
    return tag("pre", tag("code", text), tabindex="0")


def paragraph(*parts: object) -> Html:
    """Running text."""
    return tag("p", *parts)


def bullets(items: Iterable[object]) -> Html:
    """A list."""
    return tag("ul", *(tag("li", item) for item in items))


def _card(item: Card) -> Html:
    value = tag("span", item.value, class_="value")
    unit = tag("span", item.unit, class_="unit") if item.unit else None
    return tag(
        "div",
        tag("dt", item.label),
        tag("dd", join([value, unit], " "), class_="figures"),
        tag("dd", item.meaning, class_="meaning") if item.meaning else "",
    )
