"""HTML from small pure functions. Text is escaped unless it is ``Html`` already, so forgetting is safe."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Html(str):
    """Text that is markup: ``tag`` leaves it as it is."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Any text as markup that shows exactly this text.

    >>> escape("<b> & 'c'"), escape(Html("<b>"))
    ('&lt;b&gt; &amp; &#x27;c&#x27;', '<b>')
    """
    return value if isinstance(value, Html) else Html(html.escape(_clean(str(value)), quote=True))


def join(parts: Iterable[object], separator: str = "\n") -> Html:
    """Several pieces of text or markup after each other; None is left out."""
    return Html(escape(separator).join(escape(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. ``class_`` and ``aria_label`` become class and aria-label; None and False leave an attribute out.

    >>> tag("p", "a < b", tag("em", "!"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b<em>!</em></p>'
    """
    rendered = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{rendered}>")
    return Html(f"<{name}{rendered}>{join(children, '')}</{name}>")


def json_script(text: str, **attributes: object) -> Html:
    r"""JSON text as a data block that no content can end: "<", ">" and "&" only occur inside of JSON strings.

    >>> json_script('"</script>"')
    '<script type="application/json">"\\u003c/script\\u003e"</script>'
    """
    # Parsed and written again, so that nothing but JSON in ASCII gets in.
    safe = json.dumps(json.loads(text), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        safe = safe.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Html(safe), type="application/json", **attributes)


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(_clean(str(value)), quote=True)}"'


def _clean(text: str) -> str:
    """Without lone surrogates, which UTF-8 cannot hold, and control characters, which HTML forbids."""
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else "\ufffd" for c in encodable)
