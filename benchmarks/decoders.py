"""Decoding accuracy on held-out replies, for a suite's own rule and published ones: python -m benchmarks.decoders SUITE.

A reply is read correctly if the decoder agrees with a careful human reader, misread if it decodes another answer, and unread
if it decodes none. ``--show`` prints the errors of the suite's own rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "evals" / "data"


@dataclass(frozen=True)
class HeldReplies:
    """A suite's replies, and the rules that read them, the suite's own first."""

    replies: Callable[[], Iterable[Mapping[str, Any]]]
    """Each with ``reply`` and ``reading``, and whatever else the readers need."""
    readers: Mapping[str, Callable[[Mapping[str, Any]], str | None]]
    independent: Callable[[], Iterable[Mapping[str, Any]]]
    """Replies by two authors who had not seen the rules; rows with ``debated`` are labeled by another rule than ours."""


# --- kidgym ----------------------------------------------------------------------------------------------------------


def kidgym() -> HeldReplies:
    """Letters out of replies to lists of actions."""
    from evals.kidgym.prompts import LETTERS
    from evals.kidgym.reading import DECODERS, Decoder, read_reply
    from evals.reasoning import separate_reasoning
    from evals.types import Reply

    lists = json.loads((DATA / "kidgym_action_lists.json").read_text(encoding="utf-8"))

    def reader(decoder: Decoder) -> Callable[[Mapping[str, Any]], str | None]:
        def read(row: Mapping[str, Any]) -> str | None:
            reply = separate_reasoning(
                Reply(row["reply"], finish="length" if row.get("cut") or row.get("cut_off") else "stop")
            )
            index = read_reply(reply, row.get("actions") or lists[row["list"]], decoder).index
            return None if index is None else LETTERS[index]

        return read

    return HeldReplies(
        lambda: _lines("kidgym_replies.jsonl"),
        {decoder: reader(decoder) for decoder in DECODERS},
        lambda: _lines("kidgym_replies_independent.jsonl"),
    )


# --- kumo ------------------------------------------------------------------------------------------------------------


def kumo() -> HeldReplies:
    """Names of tests and truths out of replies to games of elimination."""
    from evals.kumo.readers import readers

    games = json.loads((DATA / "kumo_reply_games.json").read_text(encoding="utf-8"))
    independent = [*_lines("kumo_replies_independent.jsonl")]
    lists = {"/".join(row["names"]): {"tests": row["names"], "truths": [], "nouns": []} for row in independent}
    rows = [{**row, "game": "/".join(row["names"]), "cut": row["cut_off"]} for row in independent]
    return HeldReplies(lambda: _lines("kumo_replies.jsonl"), readers({**games, **lists}), lambda: rows)


# --- multistar -------------------------------------------------------------------------------------------------------


def multistar() -> HeldReplies:
    """Labels out of replies to questions of choice."""
    from evals.multistar.read_answer import READERS
    from evals.reasoning import separate_reasoning
    from evals.types import Reply

    def reader(rule: Callable[..., Any]) -> Callable[[Mapping[str, Any]], str | None]:
        def read(row: Mapping[str, Any]) -> str | None:
            said = separate_reasoning(Reply(row["reply"])).text
            index, _ = rule(said, row["labels"], row["options"], cut_off=row["cut_off"])
            return None if index is None else str(row["labels"][index])

        return read

    return HeldReplies(
        lambda: _lines("multistar_replies.jsonl"),
        {name: reader(rule) for name, rule in READERS.items()},
        lambda: _lines("multistar_replies_independent.jsonl"),
    )


# --- all suites ------------------------------------------------------------------------------------------------------

SUITES: Mapping[str, Callable[[], HeldReplies]] = {"kidgym": kidgym, "kumo": kumo, "multistar": multistar}


def _lines(name: str) -> Iterable[Mapping[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@dataclass(frozen=True)
class Figures:
    """Results of one rule on a suite's replies."""

    right: int
    misread: tuple[Mapping[str, Any], ...]
    unread: tuple[Mapping[str, Any], ...]

    @property
    def share(self) -> float:
        """Share of the replies that are read correctly."""
        return self.right / (self.right + len(self.misread) + len(self.unread))


def measure(suite: str, independent: bool = False) -> dict[str, Figures]:
    """The figures of each of a suite's rules; ``independent`` on the replies by authors who had not seen the rules."""
    held = SUITES[suite]()
    replies = list(held.independent() if independent else held.replies())
    figures = {}
    for name, read in held.readers.items():
        wrong = [(row, found) for row in replies if (found := read(row)) != row["reading"]]
        misread = tuple({**row, "read": found} for row, found in wrong if found is not None)
        figures[name] = Figures(len(replies) - len(wrong), misread, tuple(row for row, found in wrong if found is None))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--show", action="store_true", help="print the replies that the suite's own rule gets wrong")
    arguments = parser.parse_args()
    for independent in (False, True):
        print("\nreplies by independent authors" if independent else "replies by the decoders' author")
        _print(measure(arguments.suite, independent), arguments.show)
    return 0


def _print(figures: Mapping[str, Figures], show: bool) -> None:
    print(f"{'rule':12}{'replies':>9}{'right':>9}{'misread':>9}{'unread':>9}")
    for name, found in figures.items():
        total = found.right + len(found.misread) + len(found.unread)
        print(f"{name:12}{total:9}{found.share:9.1%}{len(found.misread):9}{len(found.unread):9}")
    if show:
        own = next(iter(figures.values()))
        for row in (*own.misread, *own.unread):
            print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
