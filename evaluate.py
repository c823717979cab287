"""python evaluate.py ckpt=...: score checkpoints again, of networks or of an agent. See --help."""

from __future__ import annotations

import sys
from pathlib import Path

from concrete_dropout.cli.evaluate import evaluate_command

if __name__ == "__main__":
    sys.exit(evaluate_command(sys.argv[1:], Path(__file__).parent / "conf"))
