"""Results of the paper's experiments: `add` takes them from run folders, `build` makes docs/results.md of them."""

from __future__ import annotations

import sys

from measured.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
