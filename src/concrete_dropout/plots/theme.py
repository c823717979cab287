"""One look for all figures: safe for colour-blind eyes, legible at 360 px and in print on white."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

# Okabe and Ito's palette without its yellow, which is lost on white paper.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
INK, MUTED, GRID = "#1f2933", "#5f6b7a", "#e4e8ed"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
HEIGHT = 380
# From dark to light; the pale end of viridis is cut off for the same reason as yellow.
DEPTH_SCALE = tuple(sample_colorscale("Viridis", [0.0, 0.2, 0.4, 0.6, 0.8]))

_axis = {
    "gridcolor": GRID,
    "linecolor": "#b8c1cc",
    "zerolinecolor": GRID,
    "showline": True,
    "ticks": "outside",
    "tickcolor": "#b8c1cc",
    "ticklen": 4,
    "tickfont": {"size": 12, "color": MUTED},
    "title": {"font": {"size": 13, "color": INK}, "standoff": 8},
    "automargin": True,
}

TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": FONT, "size": 13, "color": INK},
        "title": {"font": {"size": 15}, "x": 0, "xanchor": "left", "xref": "container", "y": 0.97},
        "colorway": PALETTE,
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "margin": {"l": 8, "r": 14, "t": 44, "b": 8},
        "xaxis": _axis,
        "yaxis": _axis,
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
            "font": {"size": 12},
            "bgcolor": "rgba(255,255,255,0)",
        },
        "hoverlabel": {"font": {"family": FONT, "size": 12}},
        "hovermode": "closest",
        "bargap": 0.35,
    }
)


def label(text: object, limit: int = 40) -> str:
    """Text for a plotly label: escaped, on one line, shortened in the middle when long.

    >>> label("<b>layers</b>.0"), label("encoder.stage1.block2.dropout", limit=15)
    ('&lt;b&gt;layers&lt;/b&gt;.0', 'encoder…dropout')
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) > limit:
        tail = (limit - 1) // 2
        line = f"{line[: limit - 1 - tail]}…{line[-tail:]}"
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(title: str, x: str, y: str, height: int = HEIGHT) -> go.Figure:
    """An empty figure in the theme; title and axis labels are escaped here."""
    made = go.Figure(layout={"template": TEMPLATE, "height": height, "title": {"text": label(title, 60)}})
    made.update_xaxes(title_text=label(x, 60))
    made.update_yaxes(title_text=label(y, 60))
    return made


def note(made: go.Figure, text: str = "No values yet") -> go.Figure:
    """Say in the middle of an empty figure why it is empty."""
    made.add_annotation(
        text=label(text, 80),
        showarrow=False,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        font={"size": 14, "color": MUTED},
    )
    # Without data plotly would count from -1 to 6.
    made.update_xaxes(range=[0, 1], showticklabels=False)
    made.update_yaxes(range=[0, 1], showticklabels=False)
    return made


def by_depth(count: int) -> list[str]:
    """Colours of ``count`` layers, from the first to the last."""
    return list(sample_colorscale(list(DEPTH_SCALE), [i / max(count - 1, 1) for i in range(count)]))


def colours(count: int) -> Sequence[str]:
    """Palette for a few lines, repeated where there are more."""
    return [PALETTE[i % len(PALETTE)] for i in range(count)]


def translucent(colour: str, alpha: float) -> str:
    """A ``#rrggbb`` colour as rgba, for bands and faint lines.

    >>> translucent("#0072B2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"
