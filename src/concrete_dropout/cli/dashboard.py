"""python dashboard.py: its options, what it prints, and its exit codes. No torch, no Hydra: it starts at once."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from concrete_dropout.cli.dashboard_options import Parser, runs_folder
from concrete_dropout.cli.paths import shortest
from concrete_dropout.errors import UserError, as_user_error
from concrete_dropout.signals import Terminated, terminable

if TYPE_CHECKING:
    from concrete_dropout.dashboard.build import Progress, Site

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
MANY = 50  # runs: from here on a first build shows how far it is
EXAMPLES = """examples:
  python dashboard.py                              all runs under outputs/, in outputs/dashboard/index.html
  python dashboard.py outputs/digits --out site    some of them, elsewhere
  python dashboard.py --watch --serve              follow runs that are under way, in a browser
  python dashboard.py --serve --port 9000          serve what there is, on this machine only
  python dashboard.py --sweep outputs/digits/sweep_TIME
                                                   the report of a sweep or study again, also of one that was killed
  python dashboard.py wandb --help                 the same views in W&B

exit codes: 0 done, 1 failed, 2 the command was refused, 130 stopped by Ctrl-C, 143 by SIGTERM
"""


def dashboard_command(arguments: Sequence[str]) -> int:
    """Do what the command line says; returns the exit code. A mistake is one message on stderr."""
    shows_traceback = "--traceback" in arguments or os.environ.get("HYDRA_FULL_ERROR") == "1"
    caught: Exception
    try:
        if arguments[:1] == ["wandb"]:
            from concrete_dropout.cli.dashboard_wandb import wandb_command

            return wandb_command(arguments[1:])
        with terminable():
            return _site_command(parser().parse_args(arguments))
    except UserError as error:
        caught, code, message = error, USER_ERROR, str(error)
    except (KeyboardInterrupt, Terminated) as stop:
        print(f"\nStopped by {'SIGTERM' if isinstance(stop, Terminated) else 'Ctrl-C'}.", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        told = as_user_error(error)
        caught, code = error, FAILED
        message = str(told or f"{type(error).__name__}: {error}. This is a bug; --traceback shows where")
    if shows_traceback:
        traceback.print_exception(caught)
    print(f"\nError: {message}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """The options of the page."""
    made = Parser(
        prog="python dashboard.py",
        description="All runs, studies and sweeps of a folder as one static page: a table to sort and to filter, "
        "learned p, calibration, pictures, any two runs side by side. Built from files alone; needs no network.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("folder", nargs="?", type=Path, help="with the runs, at any depth (outputs, or OUTPUT_DIR)")
    made.add_argument(
        "--out", type=Path, metavar="FOLDER", help="of the page; by default dashboard/ in the runs' folder"
    )
    made.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=5.0,
        metavar="SECONDS",
        help="build again every so many seconds (5) until Ctrl-C; an open page follows",
    )
    made.add_argument("--serve", action="store_true", help="serve the page to browsers on this machine until Ctrl-C")
    made.add_argument("--port", type=_port, default=8350, help="of --serve (8350); 0 for any that is free")
    made.add_argument("--host", default="127.0.0.1", help="of --serve: 127.0.0.1 or localhost, nothing else")
    made.add_argument(
        "--sweep",
        type=Path,
        action="append",
        metavar="FOLDER",
        help="build the report of this sweep or study again, and no page; may be repeated",
    )
    made.add_argument("--traceback", action="store_true", help="show where in the code an error came from")
    return made


def _site_command(given: argparse.Namespace) -> int:
    if given.sweep:
        from concrete_dropout.dashboard.sweeps import rebuild_report

        for folder in given.sweep:
            print(f"report       {shortest(rebuild_report(folder))}")
        return 0
    folder = runs_folder(given.folder)
    from concrete_dropout.dashboard.build import FOLDER, build_site

    out = given.out or folder / FOLDER
    with ExitStack() as stack:
        progress = stack.enter_context(_Progress()).show
        site = build_site(folder, out, refresh=given.watch or 0.0, progress=progress)
        stack.close()
        print_site(site)
        if given.serve or given.watch:
            _stay(given, folder, out, stack)
    return 0


def _stay(given: argparse.Namespace, folder: Path, out: Path, stack: ExitStack) -> None:
    """Serve and watch until Ctrl-C."""
    import threading

    from concrete_dropout.dashboard.serve import serving
    from concrete_dropout.dashboard.watch import ending_still, watch

    if given.serve:
        address = stack.enter_context(serving(folder, out, given.port, given.host))
        print(f"serves       {address}")
    print("until        Ctrl-C", flush=True)
    if given.watch:
        stack.enter_context(ending_still(folder, out))
        watch(folder, out, given.watch, print_news, lambda error: print(f"\nError: {error}", file=sys.stderr))
    threading.Event().wait()


def print_site(site: Site) -> None:
    """Where the page is and what it shows."""
    states = ", ".join(f"{count} {state}" for state, count in site.states.most_common())
    runs = sum(site.states.values())
    print(f"dashboard    {shortest(site.index)}")
    print(f"runs         {runs:,}{f': {states}' if runs else ' so far'}")
    print(f"studies      {site.groups:,} (with sweeps)")
    print(f"took         {site.seconds:.1f} s, {site.read:,} of {runs:,} runs had changed", flush=True)


def print_news(site: Site) -> None:
    """One line for a build that found something new."""
    import time

    states = ", ".join(f"{count} {state}" for state, count in site.states.most_common())
    print(f"{time.strftime('%H:%M:%S')}     {states} ({site.read} changed, {site.seconds:.1f} s)", flush=True)


class _Progress:
    """A bar while a first build reads many runs, on a terminal."""

    def __enter__(self) -> _Progress:
        self._bar: Callable[[int], None] | None = None
        self._close: Callable[[], None] = lambda: None
        self.show: Progress = self._show
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _show(self, done: int, total: int) -> None:
        if total < MANY or not sys.stderr.isatty():
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task("Reading runs", total=total)
            self._bar, self._close = (lambda count: bar.update(task, completed=count)), bar.stop
        self._bar(done)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        message = f"{text!r} is no number of seconds (the folder comes before the options)"
        raise argparse.ArgumentTypeError(message) from None
    if not 0.5 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.5 and 3600 seconds")
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port (0 to 65535)")
    return int(text)
