"""A report as one file: the viewer's script and style, tables, figures and some episodes, all within the file."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
from typing import Any, Final

from markupsafe import escape

from evals.archive.chunks import pack_chunk
from evals.archive.episodes import chunk_of
from evals.archive.licenses import licenses
from evals.archive.pictures import Tiles
from evals.ledger.columns import COLUMNS
from evals.report.episodes import Prompt, Shown
from evals.report.page import Page, Section
from evals.view import EpisodeView, StepView
from evals.viewer.episode import OF_A_TURN, shown_as_json
from evals.viewer.server import STATIC

LARGEST: Final = 5_000_000
"""Bytes of a file."""
_NO_TURN: Final[dict[str, Any]] = {**dict.fromkeys(OF_A_TURN), "kept": 0, "options": []}

_DOCUMENT: Final = """\
<!doctype html>
<html lang="en" data-source="archive">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{script_hash}'; \
style-src 'sha256-{style_hash}'; img-src data:; base-uri 'none'; form-action 'none'">
<title>{title} – raycade report</title>
<style>{style}</style>
</head>
<body>
<!--
{licenses}
-->
<noscript>This page needs JavaScript; it loads nothing.</noscript>
<div id="app"></div>
{chunks}
<script>{script}</script>
</body>
</html>
"""


def one_file(page: Page) -> str:
    """The page as a document below ``LARGEST`` bytes: episodes are left out, the last ones first, until it is."""
    kept = sum(len(section.episodes) for section in page.sections)
    while True:
        text = _document(page, kept)
        if kept == 0 or len(text.encode()) < LARGEST:
            return text
        kept = kept * 3 // 4


def _document(page: Page, kept: int) -> str:
    script, style = ((STATIC / name).read_text(encoding="utf-8") for name in ("main.js", "style.css"))
    chunks: dict[str, str] = {}
    tiles = Tiles(lambda number, sheet: chunks.update({f"tiles-{number}": pack_chunk({}, sheet)}))
    shown: list[dict[str, Any]] = []
    sections = [_section(section, kept, shown) for section in page.sections]
    chunks["episodes-0"] = pack_chunk(*chunk_of(shown, tiles))
    tiles.close()
    chunks["report"] = pack_chunk(
        {
            "title": page.title,
            "status": list(page.status),
            "sections": sections,
            "version": importlib.metadata.version("raycade"),
        }
    )
    # A data block: no browser runs it, and base64 cannot end it.
    blocks = [f'<script type="text/plain" id="{name}">{text}</script>' for name, text in chunks.items()]
    return _DOCUMENT.format(
        title=escape(page.title),
        script=script,
        script_hash=_hash(script),
        style=style,
        style_hash=_hash(style),
        licenses=licenses().strip().replace("--", "- -"),  # which would end the comment
        chunks="\n".join(blocks),
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(section: Section, kept: int, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """A section as JSON values; its episodes and prompts are added to ``shown``, in which it names them by their places."""
    episodes = [_episode(one, shown) for one in section.episodes[:kept]]
    left_out = len(section.episodes) - len(episodes)
    lines = [*section.lines, *[f"{left_out} more were left out to keep this file small."] * bool(left_out)]
    parts = {name: list(getattr(section, name)) for name in ("tables", "figures", "more", "texts")}
    prompts = [_prompt(prompt, shown) for prompt in section.prompts]
    return {"id": section.id, "title": section.title, "lines": lines, **parts, "episodes": episodes, "prompts": prompts}


def _episode(one: Shown, shown: list[dict[str, Any]]) -> dict[str, Any]:
    suite = one.row["suite"]
    # A suite's own columns have short names here, and stored ones in the ledger.
    row = {name if name in COLUMNS else f"{suite}.{name}": value for name, value in one.row.items()}
    shown.append(shown_as_json(one.view, "", row))
    return {"at": len(shown) - 1, "ending": one.ending}


def _prompt(prompt: Prompt, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """A prompt, stored as an episode of one step without a reply."""
    view = EpisodeView((StepView(prompt.messages, "", "", None, ""),))
    row = {"suite": prompt.suite, "seed": 0, "turns": [_NO_TURN]}
    shown.append(shown_as_json(view, "", row))
    return {
        "at": len(shown) - 1,
        "title": f"{prompt.suite}, mode {prompt.mode}: first prompt of an episode of {prompt.task}",
    }
