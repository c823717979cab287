"""SIGTERM as an exception where nobody else listens: what is under way is closed as it is after Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """Ends the program by SIGTERM, with the shell's exit code for it."""

    def __init__(self) -> None:
        self.exit_code = 128 + signal.SIGTERM
        super().__init__(self.exit_code)


class _Handler:
    """Raises ``Terminated``, once: what comes while the program closes its files shall not keep it from that.

    Lightning calls the handler that it found besides its own, and stops between two steps. Then nothing is raised
    here, but it is known that the signal came.

    Attributes:
        at_once: raise in any case.
        came: whether the signal came.
    """

    def __init__(self) -> None:
        self.at_once = self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        first, self.came = not self.came, True
        if first and (self.at_once or signal.getsignal(signal.SIGTERM) is self):
            raise Terminated


@contextmanager
def terminable(at_once: bool = False) -> Iterator[None]:
    """SIGTERM raises ``Terminated`` in the context, unless somebody else has set a handler for it.

    Args:
        at_once: also inside of a trainer, which would come to the end of a step.
    """
    if threading.current_thread() is not threading.main_thread():  # where nobody can set any
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    handler = before if isinstance(before, _Handler) else _Handler()
    own = before == signal.SIG_DFL
    if own:
        signal.signal(signal.SIGTERM, handler)
    outside, handler.at_once = handler.at_once, handler.at_once or at_once
    try:
        yield
    finally:
        handler.at_once = outside
        if own:
            signal.signal(signal.SIGTERM, before)


def stop_behind(error: BaseException) -> KeyboardInterrupt | Terminated | None:
    """The stop that a library has turned into an error of its own, if that is what it was."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (KeyboardInterrupt, Terminated)):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def check_terminated() -> None:
    """Raise ``Terminated`` where SIGTERM came while somebody else had it, who had ended what was to be stopped."""
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _Handler) and handler.came:
        raise Terminated
