"""An episode on a terminal: texts that cannot steer it, pictures as well as it can draw them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from PIL import Image
from rich.console import Console, RenderableType
from rich.text import Text

from envs.picture import picture_from_description, render_description
from envs.printable import printable
from evals.suite import Suite
from evals.suite_results import suite_view
from evals.view import StepView

Pictures = Literal["auto", "blocks", "sixel", "kitty", "none"]

LONGEST = 4_000
"""Characters of a text that are shown unless all is asked for."""
WIDEST = 64
"""Columns of a picture."""


def print_episode(console: Console, suite: Suite, row: Mapping[str, Any], pictures: Pictures, *, full: bool) -> None:
    """Print a row of the ledger as its suite shows it.

    Args:
        console: Where to.
        suite: Whose episode it is.
        row: With ``turns``; the suite's own columns under their short names.
        pictures: How they are drawn.
        full: Whether to show long texts whole.
    """
    show = _Printer(console, pictures, full)
    view = suite_view(suite, row)
    show.heading(f"episode {row['episode_id']}")
    names = ("player", "suite", "task", "level", "mode", "index", "repeat", "session", "attempt")
    tokens = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "cost", "seconds")
    show.line({name: row[name] for name in names})
    show.line({name: row[name] for name in tokens if row[name]})
    show.facts(view.facts)
    for number, step in enumerate(view.steps):
        show.heading(f"turn {number}")
        show.step(step)


class _Printer:
    def __init__(self, console: Console, pictures: Pictures, full: bool) -> None:
        self.console = console
        self.pictures = "none" if pictures == "auto" and not console.is_terminal else pictures
        self.full = full

    def heading(self, text: str) -> None:
        self.console.rule(Text(text, style="bold"), align="left", characters="─")

    def step(self, step: StepView) -> None:
        for said in step.shown:
            self.label(said["role"])
            for part in said["parts"]:
                if part["picture"] is None:
                    self.text(part["text"])
                else:
                    self.picture(part["picture"])
        if step.reasoning:
            self.label("reasoning")
            self.text(step.reasoning, "dim")
        self.label("reply")
        self.text(step.reply)
        decoded = "nothing" if step.decoded is None else printable(step.decoded)
        self.console.print(Text.assemble(("decoded  ", "bold"), decoded, (f"  (rule: {printable(step.rule)})", "dim")))
        self.facts(step.facts)

    def label(self, text: str) -> None:
        self.console.print(Text(printable(text), style="bold cyan"))

    def text(self, text: str, style: str = "") -> None:
        shown = text if self.full else text[:LONGEST]
        self.console.print(Text(printable(shown), style=style), soft_wrap=not self.console.is_terminal)
        rest = len(text) - len(shown)
        if rest:
            self.console.print(Text(f"[{rest:,} more characters; --full shows them]", style="italic"))

    def line(self, facts: Mapping[str, Any]) -> None:
        parts = []
        for name, value in facts.items():
            text = f"{value:.3g}" if isinstance(value, float) else f"{value}"
            parts.append(f"{name} {text}")
        self.console.print(Text(printable(" · ".join(parts))))

    def facts(self, facts: Mapping[str, Any]) -> None:
        for name, value in facts.items():
            if value not in (None, "", [], {}):
                shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
                if not self.full and len(shown) > LONGEST:
                    shown = f"{shown[:LONGEST]} ..."
                self.console.print(Text.assemble((f"{name}: ", "bold"), printable(shown)))

    def picture(self, description: str) -> None:
        try:
            if self.pictures == "none":
                picture = picture_from_description(description)
            else:
                picture, pixels = render_description(description)
                self.console.print(_drawn(Image.fromarray(pixels), self.pictures, self.console.width))
            width, height = picture.size
        except Exception as error:  # a ledger may be anybody's; what is wrong with a picture must not hide the episode
            self.console.print(Text(f"[a picture that cannot be drawn: {printable(str(error))}]", style="italic"))
            return
        self.console.print(Text(f"[picture: {picture.kind}, {width} x {height}, {picture.key[:12]}]", style="italic"))


def _drawn(image: Image.Image, pictures: str, columns: int) -> RenderableType:
    """A picture for the terminal; the library finds out what it can draw when it is imported."""
    from textual_image import renderable

    kinds: dict[str, Any] = {
        "auto": renderable.Image,
        "blocks": renderable.HalfcellImage,
        "sixel": renderable.SixelImage,
        "kitty": renderable.TGPImage,
    }
    drawn: RenderableType = kinds[pictures](image, width=min(WIDEST, columns), height="auto")
    return drawn
