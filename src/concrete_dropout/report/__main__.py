"""``python -m concrete_dropout.report RUN_DIR``: build the report of a run or a study again, from its files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.errors import UserError, as_user_error
from concrete_dropout.report.run import build_run_report
from concrete_dropout.signals import Terminated, terminable

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the reports of the folders on the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m concrete_dropout.report",
        description="Build report.html of a run or a study again from the files in its folder: no network, no GPU.",
    )
    parser.add_argument(
        "run_dir",
        nargs="+",
        type=Path,
        metavar="RUN_DIR",
        help="folder of a run, of replicas or of a study, as train.py prints it",
    )
    code = 0
    try:
        with terminable():
            for folder in parser.parse_args(arguments).run_dir:
                try:
                    print(build_run_report(folder))
                except (UserError, OSError) as error:
                    # A folder that cannot be written to is the user's to mend as well.
                    print(f"\nError: {as_user_error(error) or error}", file=sys.stderr)
                    code = 2
    except (KeyboardInterrupt, Terminated) as stop:
        print("\nStopped. Reports that were there are as they were.", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
