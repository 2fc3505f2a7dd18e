"""What a report's page holds, read as its script reads it."""

import re
from pathlib import Path
from typing import Any

from evals.archive.chunks import unpack_chunk


def data_block(page: str, name: str) -> Any:
    """The head of one data block of a page: ``report`` or ``episodes-0``."""
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found, f"the page has no data block {name}"
    return unpack_chunk(found[1])[0]


def report_of(file: Path) -> dict[str, Any]:
    """Title, status lines and sections of a page."""
    return data_block(file.read_text(encoding="utf-8"), "report")


def section_of(report: dict[str, Any], title: str) -> dict[str, Any]:
    """The one section of this title."""
    [section] = [section for section in report["sections"] if section["title"] == title]
    return section


def episodes_of(file: Path) -> list[dict[str, Any]]:
    """The episodes and prompts of a page."""
    return data_block(file.read_text(encoding="utf-8"), "episodes-0")["episodes"]
