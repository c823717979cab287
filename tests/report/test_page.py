from __future__ import annotations

import base64
import gzip
import re

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from concrete_dropout.report import Card, Section, bullets, cards, code, details, figure, grid, notice, page, table


def whole_page() -> str:
    made = go.Figure(go.Scatter(x=[1], y=[2], name="</script><script>alert(1)</script>"))
    body = [
        cards([Card("Label", "1.0", "nats", "Meaning")]),
        table(["A", "B"], [["row", "1"]], "Caption", numeric=(1,)),
        grid([figure(made, "Caption of figure", "What is in it")]),
        details("More", code("a < b")),
        notice("warning", "Careful", bullets(["one", "two"])),
    ]
    return page("A & B", [Section("all", "All parts", "".join(body)), Section("text", "Text", "1 < 2")], lead="Lead.")


def test_text_in_a_section_is_escaped_and_markup_is_not() -> None:
    text = whole_page()
    assert "<h1>A &amp; B</h1>" in text
    assert "1 &lt; 2" in text
    # A plain string is text, also when it looks like markup: only Html is markup.
    assert "&lt;dl class=" in text


def test_headings_are_in_order_and_every_link_has_its_target() -> None:
    text = page("T", [Section("one", "One", "a"), Section("two", "Two", "b")])
    assert re.findall(r"<h(\d)", text) == ["1", "2", "2"]
    assert set(re.findall(r'href="#([\w-]+)"', text)) == set(re.findall(r'<h2 id="([\w-]+)"', text)) == {"one", "two"}
    assert '<html lang="en">' in text


def test_tables_have_scoped_headers_and_a_box_that_scrolls() -> None:
    made = table(["A", "B"], [["row", "<1>"]], "Caption", numeric=(1,))
    assert made.count('scope="col"') == 2
    assert '<th scope="row">row</th>' in made
    assert '<td class="number">&lt;1&gt;</td>' in made
    assert made.startswith('<div class="scroll" tabindex="0" role="region" aria-label="Caption">')
    assert "<caption>Caption</caption>" in made


def test_figures_say_what_they_show() -> None:
    made = figure(go.Figure(layout={"height": 123}), "Seen <here>", "Spoken")
    assert 'role="img" aria-label="Spoken" style="height:123px"' in made
    assert "<figcaption>Seen &lt;here&gt;</figcaption>" in made
    assert "figcaption" not in figure(go.Figure(), alt="Spoken")


def test_plotly_is_packed_once_and_only_where_it_is_needed() -> None:
    plain = page("T", [Section("a", "A", "text")])
    assert len(plain) < 20_000
    drawn = page("T", [Section("a", "A", figure(go.Figure(), "f")), Section("b", "B", figure(go.Figure(), "g"))])
    packed = re.findall(r'<script type="text/plain" id="plotly">([^<]*)</script>', drawn)
    assert len(packed) == 1
    assert gzip.decompress(base64.b64decode(packed[0])).decode() == get_plotlyjs()
    assert len(drawn) < 2_300_000


def test_the_policy_forbids_requests_and_foreign_scripts() -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page("T", []))
    assert policy.startswith("default-src &#x27;none&#x27;")
    script = policy.split("script-src ")[1].split(";  ")[0].split("style-src")[0]
    assert script.count("sha256-") == 2
    assert "unsafe" not in script
    assert "http" not in policy


def test_the_same_content_gives_the_same_page() -> None:
    assert whole_page() == whole_page()
