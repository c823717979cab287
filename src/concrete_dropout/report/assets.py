"""Style sheet and script of every report, and plotly.js packed into the page."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib

from plotly.offline import get_plotlyjs

from concrete_dropout.report.picture_style import PICTURE_STYLE

_PAGE_STYLE = """
:root{color-scheme:light;--ink:#1f2933;--muted:#5a6675;--line:#dde3ea;--soft:#f5f7f9;--accent:#0b5c92}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:#fff;color:var(--ink);line-height:1.55;font-size:16px;overflow-wrap:anywhere;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main,header,footer{max-width:1000px;margin:0 auto;padding:0 24px}
header{padding-top:40px}
.kind{margin:0 0 4px;color:var(--muted);font-size:.8rem;font-weight:600;letter-spacing:.06em;text-transform:uppercase}
h1{font-size:2rem;line-height:1.2;margin:0 0 8px;letter-spacing:-.015em}
h2{font-size:1.35rem;line-height:1.3;margin:56px 0 12px;padding-top:14px;border-top:1px solid var(--line);
letter-spacing:-.01em}
h3{font-size:1.05rem;margin:28px 0 8px}
p{margin:0 0 12px;max-width:46em}
.lead{font-size:1.08rem;color:#323f4b;margin-bottom:10px}
.facts{list-style:none;margin:0 0 12px;padding:0;color:var(--muted);font-size:.9rem}
.facts li{display:inline}
.facts li+li:before{content:" · "}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:16px 0 20px;padding:0;font-size:.92rem}
a{color:var(--accent);text-decoration-thickness:1px;text-underline-offset:3px}
.cards{display:grid;grid-template-columns:repeat(3,1fr);gap:14px;margin:16px 0 24px}
.cards>div{border:1px solid var(--line);border-radius:10px;padding:14px 16px 12px;background:var(--soft)}
.cards dt{font-size:.85rem;font-weight:600;color:var(--muted)}
.cards dd{margin:0}
.cards .figures{margin:2px 0 4px;line-height:1.25}
.cards .value{font-size:1.7rem;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.cards .unit{font-size:.85rem;color:var(--muted)}
.cards .meaning{font-size:.85rem;line-height:1.4;color:#3e4c59}
.notice{border:1px solid;border-left-width:5px;border-radius:8px;padding:10px 16px;margin:0 0 12px;font-size:.95rem}
.notice ul{margin:4px 0 2px;padding-left:20px}
.notice p{margin:0}
.notice.warning{background:#fff8e6;border-color:#d99a00}
.notice.bad{background:#fdf0ee;border-color:#c0392b}
.notice.good{background:#eef8f3;border-color:#00825f}
.notice.info{background:#eef5fb;border-color:#2b7bb9}
.scroll{overflow-x:auto;margin:0 0 20px}
.scroll:focus-visible,pre:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);font-size:.85rem;padding-bottom:6px}
th,td{text-align:left;padding:6px 18px 6px 0;border-bottom:1px solid var(--line);white-space:nowrap;
vertical-align:top}
th:last-child,td:last-child{padding-right:2px}
thead th{font-size:.8rem;color:var(--muted);border-bottom:2px solid #b8c1cc;vertical-align:bottom}
tbody th{font-weight:500}
.number{text-align:right}
.words{white-space:normal;min-width:11em}
.flag{font-weight:650;color:#9a3412}
figure{margin:0 0 24px;min-width:0}
.plot{width:100%;min-width:0;overflow:hidden}
.waiting{color:var(--muted);text-align:center;padding-top:20%}
figcaption{font-size:.88rem;color:var(--muted);margin-top:6px;max-width:52em}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 28px}
details{border:1px solid var(--line);border-radius:8px;padding:0 16px;margin:0 0 16px}
.notice details{margin:8px 0;background:#fff}
summary{cursor:pointer;padding:10px 0;font-weight:600}
pre{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:12px 14px;overflow:auto;
margin:0 0 16px;font-size:.84rem;line-height:1.5;overflow-wrap:normal}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.94em}
footer{color:var(--muted);font-size:.85rem;padding-top:32px;padding-bottom:40px}
@media screen and (max-width:760px){.grid{grid-template-columns:minmax(0,1fr)}
.cards{grid-template-columns:repeat(2,1fr)}}
@media screen and (max-width:520px){
body{font-size:15px}main,header,footer{padding-left:16px;padding-right:16px}header{padding-top:24px}
h1{font-size:1.55rem}h2{margin-top:40px}
th,td{padding-right:12px}.cards{gap:10px}.cards>div{padding:10px 12px}.cards .value{font-size:1.35rem}}
@page{margin:15mm}
@media print{
body{font-size:10.5pt}main,header,footer{max-width:none;padding:0}nav,.waiting,.modebar-container{display:none!important}
h2{margin-top:24px}h2,h3,caption,thead{break-after:avoid}
figure,.cards>div,.notice,tr{break-inside:avoid}.cards{grid-template-columns:repeat(3,1fr)}
.scroll,pre{overflow:visible}pre{white-space:pre-wrap;overflow-wrap:anywhere}
table{font-size:9pt}th,td{white-space:normal;padding-right:10px}td.number{white-space:nowrap}
details{border:0;padding:0}details::details-content{content-visibility:visible}}
"""
STYLE = _PAGE_STYLE + PICTURE_STYLE

# The page is A4 or letter with margins of 15 mm: figures are drawn again at that width before they are printed.
SCRIPT = """
"use strict";
(() => {
  const boxes = () => Array.from(document.querySelectorAll(".plot"));
  const say = (box, text) => { box.textContent = ""; const p = document.createElement("p");
    p.className = "waiting"; p.textContent = text; box.append(p); };
  async function unpack() {
    const packed = document.getElementById("plotly").textContent;
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  async function draw() {
    if (!boxes().length) return;
    if (typeof DecompressionStream === "undefined") {
      boxes().forEach((box) => say(box, "Figures need a browser from 2023 or later; the tables have the numbers."));
      return;
    }
    await unpack();
    const touch = matchMedia("(pointer: coarse)").matches;
    for (const box of boxes()) {
      try {
        const made = JSON.parse(box.parentElement.querySelector("script").textContent);
        // A finger that moves over a figure scrolls the page.
        if (touch) made.layout.dragmode = false;
        box.textContent = "";
        await Plotly.newPlot(box, made.data, made.layout, {responsive: true, displaylogo: false,
          modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
      } catch (error) {
        say(box, "This figure could not be drawn: " + error);
      }
    }
  }
  const opened = [];
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not([open])").forEach((fold) => { fold.open = true; opened.push(fold); });
    boxes().forEach((box) => {
      if (box.layout) Plotly.relayout(box, {width: box.closest(".grid") ? 318 : 660, autosize: false});
    });
  });
  addEventListener("afterprint", () => {
    opened.splice(0).forEach((fold) => { fold.open = false; });
    boxes().forEach((box) => { if (box.layout) Plotly.relayout(box, {width: null, autosize: true}); });
  });
  draw().catch((error) => boxes().forEach((box) => say(box, "Figures could not be drawn: " + error)))
    .finally(() => document.documentElement.setAttribute("data-drawn", "yes"));
})();
"""


@functools.cache
def packed_plotly() -> str:
    """plotly.js as gzip in base64: 2.0 instead of 4.8 MB in every report."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


@functools.cache
def policy() -> str:
    """Content security policy: no requests at all, and no script but the two of this file.

    Whatever text of a run ends up in the page, a browser runs nothing of it.
    """
    scripts = " ".join(f"'sha256-{_digest(script)}'" for script in (SCRIPT, get_plotlyjs()))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
