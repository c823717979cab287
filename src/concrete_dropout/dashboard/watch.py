"""Builds the site again and again while runs go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from concrete_dropout.dashboard.build import Site, build_site
from concrete_dropout.errors import UserError

EVERY = 5.0  # seconds
SHARE = 0.2  # of one core, at most: runs need it more


def watch(
    root: Path,
    out: Path | None,
    every: float,
    tell: Callable[[Site], None],
    trouble: Callable[[UserError], None],
    rounds: int | None = None,
) -> None:
    """Build until Ctrl-C.

    Args:
        root: the folder with the runs.
        out: of the site; None for the default.
        every: seconds between two builds.
        tell: is given every build that found something new.
        trouble: is given what went wrong, a full disk for example; the next build may go well.
        rounds: number of builds; None for no end.
    """
    while rounds is None or rounds > 0:
        began = time.monotonic()
        try:
            site = build_site(root, out, refresh=every)
            if site.changed:
                tell(site)
        except UserError as error:
            trouble(error)
        rounds = None if rounds is None else rounds - 1
        if rounds != 0:
            time.sleep(max(every, (time.monotonic() - began) / SHARE))


@contextmanager
def ending_still(root: Path, out: Path | None) -> Iterator[None]:
    """Afterwards, open pages stop looking for news: one last build says that none will come."""
    try:
        yield
    finally:
        with suppress(UserError):
            build_site(root, out)
