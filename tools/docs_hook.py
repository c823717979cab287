"""What `mkdocs build` calls: adds the configuration reference to the site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path

from config_reference import page_name, pages, read_groups  # noqa: E402

FOLDER = "reference"
TITLE = "Configuration"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for every group into the navigation, in place of the entry that stands for them."""
    groups: list[Any] = [{group: f"{FOLDER}/{page_name(group)}.md"} for group in read_groups(ROOT / "conf")]
    for entry in config.nav or []:
        if TITLE in entry:
            entry[TITLE] = [f"{FOLDER}/index.md", *groups]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages themselves, which exist nowhere but in the site."""
    for name, text in pages(ROOT / "conf").items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    return files
