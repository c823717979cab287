"""python evaluate.py ckpt=...: score a saved agent again, from more starts, with a video. See --help."""

from __future__ import annotations

import sys

from concrete_dropout.cli.evaluate import evaluate_command

if __name__ == "__main__":
    sys.exit(evaluate_command(sys.argv[1:]))
