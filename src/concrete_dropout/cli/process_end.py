"""The end of a process that may have trained together with others."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn


def leave_after(main: Callable[[], int]) -> NoReturn:
    """Run a command, and end this process with all that ``sys.exit`` does but for taking the interpreter apart.

    A thread of Gloo gives up its last piece of work some time after everybody has its result. That needs the
    interpreter, and where this is being taken apart Python ends the thread by force, upon which C++ aborts the process
    ("terminate called without an active exception"): with plain DDP on CPUs in one end out of four on a busy machine.
    A run that has done all its work must not count as failed for that, nor hide the error that it ended with.

    An exception other than ``SystemExit`` ends the process in Python's own way, with its traceback.
    """
    try:
        code = main()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it is gone, or it is closed
            stream.flush()
    os._exit(code)
