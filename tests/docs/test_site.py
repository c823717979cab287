"""The documentation is built without a warning, has a page for every group, and asks no network for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_and_every_group_is_there(site: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()}
    wanted = written | {Path("reference") / f"{group}.html" for group in groups}
    assert {page for page in wanted if not (site / page).is_file()} == set()


def test_the_navigation_leads_to_every_page(site: Path) -> None:
    links = set(re.findall(r'href="([^"#]+\.html)"', (site / "index.html").read_text()))
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert pages <= links


def test_nothing_is_fetched(site: Path) -> None:
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)] == [], page.name


def test_keys_reach_the_page(site: Path) -> None:
    page = (site / "reference" / "dropout.html").read_text()
    assert "<code>dropout.temperature</code>" in page
    assert "concrete: of the relaxation" in page
