"""What the numbers say, in words: text that stands below the section that it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from concrete_dropout.errors import UserError

FILE = Path("tools/measured/findings.md")
CLAIMS = "The paper's claims, one by one"  # stands before all sections
# Measured numbers belong into the rows: words may count, and name what is set in code.
MEASURED = re.compile(r"\d\.\d|\d\s?%|\d,\d")


def read_findings(root: Path, titles: list[str]) -> dict[str, list[str]]:
    """Title of a section -> lines of Markdown; nothing where there is no file.

    Raises:
        UserError: text for a section that there is not, or with a number that may have been measured.
    """
    path = root / FILE
    if not path.is_file():
        return {}
    chunks = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {title.strip(): text.strip() for title, text in zip(chunks[::2], chunks[1::2], strict=True)}
    unknown = sorted(found.keys() - {*titles, CLAIMS})
    if unknown:
        raise UserError(f"{FILE} has {unknown[0]!r}, which is no section of the page: {', '.join(titles)}")
    for title, text in found.items():
        if number := MEASURED.search(re.sub(r"`[^`]*`", "", text)):
            raise UserError(
                f"{FILE}, {title!r}: {number.group()!r} looks like a measured number, which belongs into a CSV file; "
                "say it in words, or put a setting into backticks"
            )
    return {title: [*text.splitlines(), ""] for title, text in found.items()}
