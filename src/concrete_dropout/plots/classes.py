"""Scores of single classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from concrete_dropout.plots.arrays import number
from concrete_dropout.plots.theme import PALETTE, figure, label, note

ROW, FRAME = 30, 130  # pixels of height: per class, and for axis, title and legend


def class_iou(names: Iterable[Any], iou: Iterable[Any], iou_no_mc: Iterable[Any] = ()) -> go.Figure:
    """Intersection over union of every class as bars, the best on top, with and without Monte Carlo samples.

    Args:
        names: of the classes.
        iou: with Monte Carlo samples, None for a class that does not occur.
        iou_no_mc: from one pass without dropout; none where it was not measured.
    """
    labels = [label(name, 24) for name in names]
    scores = dict(zip(labels, map(number, iou), strict=False))
    without = dict(zip(labels, map(number, iou_no_mc), strict=False))
    # From the worst to the best: plotly starts at the bottom. A class without a value comes first.
    order = sorted(scores, key=lambda name: np.nan_to_num(scores[name], nan=-1.0))
    made = figure("IoU of every class", "Intersection over union", "", FRAME + ROW * max(len(order), 3))
    if not order or not any(np.isfinite([scores[name] for name in order])):
        return note(made, "No IoU recorded")
    bars = [("MC dropout", scores, PALETTE[0])]
    if any(np.isfinite(list(without.values()))):
        bars.insert(0, ("without MC", without, PALETTE[5]))
    for words, values, colour in bars:
        made.add_bar(
            y=order,
            x=[values.get(name, float("nan")) for name in order],
            orientation="h",
            name=words,
            marker={"color": colour},
            hovertemplate=f"%{{y}}: %{{x:.3f}}<extra>{words}</extra>",
        )
    made.update_xaxes(range=[0, 1], dtick=0.25)
    made.update_yaxes(ticklabelstandoff=4)
    made.update_layout(bargap=0.25, legend={"traceorder": "reversed"})
    return made
