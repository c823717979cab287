"""The figure of the section on UCI sets: learned p of every layer, set by set."""

from __future__ import annotations

from collections.abc import Iterable

from .axes import Axis
from .figures import Line, Panel, figure
from .series import depth_name
from .tables import Group

APART = 0.16  # between layers of one set, whose neighbour is 1 away
ROOM = 70  # pixels of a set


def learned_figure(file: str, found: Iterable[Group], order: Iterable[str]) -> dict[str, str]:
    """Mean p over splits with its standard error; of several settings of a set the first, as in the tables.

    Args:
        file: its name.
        found: groups of all kinds of dropout.
        order: of the sets; those that it does not name come last.
    """
    groups: dict[str, Group] = {}
    for group in found:
        if group.kind == "concrete" and group.learned:
            groups.setdefault(group.values["set"], group)
    names = [name for name in order if name in groups]
    names += [name for name in groups if name not in names]
    if not names:
        return {}
    # By depth: the noise model has a part in the layers' names.
    depths = [list(groups[name].learned.values()) for name in names]
    count = max(map(len, depths))
    lines = []
    for i in range(count):
        shift = APART * (i - (count - 1) / 2)
        own = [(place + shift, layers[i]) for place, layers in enumerate(depths) if i < len(layers)]
        points = tuple((x, p.mean) for x, p in own)
        lines.append(Line(depth_name(i), points, i, errors=tuple(p.se or 0.0 for _, p in own), dots=True, joined=False))
    panel = Panel("", Axis("", names=tuple(names)), Axis("p"), lines)
    title = "Learned p by layer: mean and standard error over splits"
    return {file: figure(title, [panel], size=(max(4, len(names)) * ROOM, 245))}
