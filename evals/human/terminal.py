"""A person plays in the terminal: texts at 80 columns, pictures as half blocks and as files, options as numbers."""

from __future__ import annotations

import contextlib
import logging
import select
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from PIL import Image
from rich.console import Console
from rich.text import Text

from envs.picture import Picture
from envs.printable import printable
from evals.human.player import Question, QuitError
from evals.types import Part

COLUMNS: Final = 80
WIDEST_PICTURE: Final = 160
"""Columns."""
SIGNAL_SECONDS: Final = 0.2
"""How soon a signal is noticed while a person thinks."""
HELP: Final = ":rules shows the rules again, :quit stops and keeps the finished games."
NOTE: Final = "You answer by choosing; what the texts say about how to write or explain an answer is meant for models."


class Terminal:
    """Asks on a console, and reads answers from standard input."""

    def __init__(self, folder: Path, console: Console | None = None) -> None:
        """``folder`` takes the pictures, which are too fine for most terminals."""
        self._folder = folder
        self._console = console or Console(highlight=False)
        self._rules: tuple[Part, ...] = ()
        self._pictures = 0

    def begin(self, number: int, games: int) -> None:
        """Announce a game."""
        self._print(f"\n=== Game {number} of {games} ===  {HELP if number == 1 else ''}")

    async def ask(self, question: Question) -> int:
        """Show a question and read the number of an option, or its text, until there is one.

        Raises:
            QuitError: the person types ``:quit``, or closes the input or the terminal.
        """
        self._ask(question)
        while True:
            typed = self._read()
            if typed == ":quit":
                raise QuitError
            if typed == ":rules":
                self._show(question.rules)
            elif (chosen := option_index(typed, question.options)) is not None:
                return chosen
            else:
                self._print(f"Type a number from 1 to {len(question.options)}. {HELP}")

    def _ask(self, question: Question) -> None:
        """Show a question with the numbers of its options; the rules only where they are others than before."""
        if question.number == 0:
            episode = question.episode
            self._print(f"{episode.suite}, {episode.task}, {episode.level}")
            if question.for_models:
                self._print(NOTE)
        if question.rules != self._rules:
            self._rules = question.rules
            self._show(question.rules)
        self._show(question.shown)
        for number, caption in enumerate(question.captions, 1):
            line = f"{number:4}"
            # A caption may be the number itself.
            if caption != str(number):
                line += f"  {caption}"
            self._print(line, indent=6)

    def _read(self) -> str:
        # A signal that comes after the prompt and before the read would be handled only when a line was typed.
        prompt = "> "
        with _of_a_person():
            if sys.stdin.isatty():
                print(prompt, end="", flush=True)
                prompt = ""
                while not select.select([sys.stdin], [], [], SIGNAL_SECONDS)[0]:
                    pass
            return input(prompt).strip()

    def _show(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, Picture):
                self._picture(part)
            else:
                self._print(part)

    def _print(self, text: str, indent: int = 0) -> None:
        """Plain text in lines of at most 80 columns; control characters, which a task file may hold, become escapes."""
        width = min(COLUMNS, self._console.width)
        for line in printable(text).split("\n"):
            later = " " * (indent or (2 if line.startswith("- ") else 0))
            wrapped = textwrap.wrap(line, width, subsequent_indent=later, break_on_hyphens=False) or [""]
            with _of_a_person():
                self._console.print(Text("\n".join(wrapped)), soft_wrap=True)

    def _picture(self, picture: Picture) -> None:
        image = Image.fromarray(picture.render())
        self._pictures += 1
        path = self._folder / f"picture-{self._pictures}.png"
        image.save(path)
        if can_draw(self._console):
            # When imported, it asks the terminal what it can draw; one that does not answer is no trouble worth a traceback.
            logging.getLogger("textual_image").addHandler(logging.NullHandler())
            from textual_image.renderable import HalfcellImage

            width = min(image.width, self._console.width, WIDEST_PICTURE)
            # A cell holds two rows of the picture; of a very wide one less than half a cell may be left.
            height = max(1, round(image.height * width / image.width / 2))
            with _of_a_person():
                self._console.print(HalfcellImage(image, width=width, height=height))
        with _of_a_person():
            self._console.print(Text(f"[picture: {path}]"), soft_wrap=True)


@contextlib.contextmanager
def _of_a_person() -> Iterator[None]:
    """Turn the end of the input, and a terminal that has been closed, into what they mean: the person has gone.

    Raises:
        QuitError: either has happened.
    """
    try:
        yield
    except (EOFError, OSError) as error:
        raise QuitError from error


def can_draw(console: Console) -> bool:
    """Whether a console shows enough colors, and half blocks."""
    encoded = console.encoding.lower().replace("-", "").startswith("utf")
    return console.is_terminal and encoded and not console.no_color and console.color_system in ("256", "truecolor")


def option_index(typed: str, options: Sequence[str]) -> int | None:
    """Which option was typed, by its own text in any case, or by its number from 1."""
    for index, option in enumerate(options):
        if typed.casefold() == option.casefold():
            return index
    if typed.isascii() and typed.isdecimal() and len(typed) < 4 and 1 <= int(typed) <= len(options):
        return int(typed) - 1
    return None
