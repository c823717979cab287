"""python predict.py ckpt=... input=...: a checkpoint on your own files. See --help."""

from __future__ import annotations

import sys
from pathlib import Path

from concrete_dropout.cli.predict import predict_command

if __name__ == "__main__":
    sys.exit(predict_command(sys.argv[1:], Path(__file__).parent / "conf"))
