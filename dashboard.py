"""python dashboard.py: all runs, studies and sweeps of a folder as one page, or as views in W&B. See --help."""

from __future__ import annotations

import sys

from concrete_dropout.cli.dashboard import dashboard_command

if __name__ == "__main__":
    sys.exit(dashboard_command(sys.argv[1:]))
