from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concrete_dropout.report.html import Html, escape, join, json_script, tag

ANY_TEXT = st.text(st.characters(exclude_categories=()))


class Reader(HTMLParser):
    """Collects what a parser sees: tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(name)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(ANY_TEXT)
def test_text_stays_text_in_content_and_attributes(text: str) -> None:
    markup = tag("p", text, title=text)
    markup.encode("utf-8")
    reader = read(markup)
    assert reader.tags == ["p"]
    assert list(reader.attributes) == ["title"]
    if text.isprintable():
        assert reader.text == text
        assert reader.attributes["title"] == text


@given(st.recursive(ANY_TEXT | st.integers(), lambda entry: st.lists(entry) | st.dictionaries(ANY_TEXT, entry)))
def test_json_survives_and_cannot_end_its_script(value: object) -> None:
    markup = json_script(json.dumps(value))
    inside = markup.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert json.loads(inside) == value
    assert not set("<>&") & set(inside)
    assert inside.isascii()


@pytest.mark.parametrize("text", ["alert(1)</script>", "NaN", ""])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        json_script(text)


def test_markup_is_not_escaped_twice() -> None:
    inner = tag("em", "a & b")
    assert tag("p", inner) == "<p><em>a &amp; b</em></p>"
    assert escape(inner) is inner
    assert join(["<", None, Html("<br>")], " ") == "&lt; <br>"


def test_void_elements_and_attributes() -> None:
    assert tag("meta", name="a", http_equiv="b") == '<meta name="a" http-equiv="b">'
    assert tag("div", hidden=True, id=None, lang=False) == "<div hidden></div>"
