"""Prints what an image needs: the dependencies and all extras of pyproject.toml but those for developers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NOT_IN_IMAGES = {"bench", "dev", "docs"}


def runtime_requirements(project: dict[str, Any]) -> list[str]:
    """The requirements of the project's table, sorted, each once.

    >>> extras = {"train": ["rich>=1", "torch>=2"], "dev": ["ruff"]}
    >>> runtime_requirements({"dependencies": ["torch>=2"], "optional-dependencies": extras})
    ['rich>=1', 'torch>=2']
    """
    extras = project.get("optional-dependencies", {})
    kept = [entry for name, entries in extras.items() if name not in NOT_IN_IMAGES for entry in entries]
    return sorted({*project["dependencies"], *kept})


if __name__ == "__main__":
    table = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
    print("\n".join(runtime_requirements(table)))
