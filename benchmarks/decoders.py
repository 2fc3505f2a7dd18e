"""Decoding accuracy on held-out replies, for a suite's own rule and published ones: python -m benchmarks.decoders SUITE.

Three files for each suite: replies by the decoders' author; natural ones, as models write them, by an author who had not
seen the decoders; and hard ones, written by two more such authors to find what a decoder fails on. A reply is read
correctly if the decoder agrees with a careful human reader, misread if it decodes another answer, and unread if it decodes
none. ``--show`` prints the errors of the suite's own rule.
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

    readers: Mapping[str, Callable[[Mapping[str, Any]], str | None]]
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Makes a row of a file what the readers take: with ``reply`` and ``reading``, and whatever else they need."""


# --- kidgym ----------------------------------------------------------------------------------------------------------


def kidgym() -> HeldReplies:
    """Letters out of replies to lists of actions."""
    from evals.replies.reasoning import separate_reasoning
    from evals.suites.kidgym.prompts import LETTERS
    from evals.suites.kidgym.reading import DECODERS, Decoder, read_reply
    from evals.types import Reply

    lists = json.loads((DATA / "kidgym_action_lists.json").read_text(encoding="utf-8"))

    def reader(decoder: Decoder) -> Callable[[Mapping[str, Any]], str | None]:
        def read(row: Mapping[str, Any]) -> str | None:
            reply = separate_reasoning(
                Reply(row["reply"], finish="length" if row.get("cut") or row.get("cut_off") else "stop")
            )
            index = read_reply(reply, row.get("actions") or lists[row["list"]], decoder).option
            return None if index is None else LETTERS[index]

        return read

    return HeldReplies({decoder: reader(decoder) for decoder in DECODERS})


# --- kumo ------------------------------------------------------------------------------------------------------------


def kumo() -> HeldReplies:
    """Names of tests and truths out of replies to games of elimination."""
    from evals.suites.kumo.readers import readers

    games = json.loads((DATA / "kumo_reply_games.json").read_text(encoding="utf-8"))
    named = [row["names"] for kind in KINDS for row in _lines("kumo", kind) if "names" in row]
    lists = {"/".join(names): {"tests": names, "truths": [], "nouns": []} for names in named}

    def prepare(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**row, "game": "/".join(row["names"]), "cut": row["cut_off"]} if "names" in row else row

    return HeldReplies(readers({**games, **lists}), prepare)


# --- multistar -------------------------------------------------------------------------------------------------------


def multistar() -> HeldReplies:
    """Labels out of replies to questions of choice."""
    from evals.replies.reasoning import separate_reasoning
    from evals.suites.multistar.read_answer import READERS
    from evals.types import Reply

    def reader(rule: Callable[..., Any]) -> Callable[[Mapping[str, Any]], str | None]:
        def read(row: Mapping[str, Any]) -> str | None:
            said = separate_reasoning(Reply(row["reply"])).text
            option = rule(said, row["labels"], row["options"], cut_off=row["cut_off"]).option
            return None if option is None else str(row["labels"][option])

        return read

    return HeldReplies({name: reader(rule) for name, rule in READERS.items()})


# --- all suites ------------------------------------------------------------------------------------------------------

SUITES: Mapping[str, Callable[[], HeldReplies]] = {"kidgym": kidgym, "kumo": kumo, "multistar": multistar}


KINDS: Mapping[str, str] = {"own": "_replies", "natural": "_replies_natural", "hard": "_replies_hard"}
"""Which replies, and how their files are named. Rows with ``debated`` are labeled by another rule than ours."""


def _lines(suite: str, kind: str) -> Iterable[Mapping[str, Any]]:
    with (DATA / f"{suite}{KINDS[kind]}.jsonl").open(encoding="utf-8") as file:
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


def measure(suite: str, kind: str = "own") -> dict[str, Figures]:
    """The figures of each of a suite's rules on one kind of replies."""
    held = SUITES[suite]()
    replies = list(map(held.prepare, _lines(suite, kind)))
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
    for kind in KINDS:
        print(f"{kind} replies")
        _print(measure(arguments.suite, kind), arguments.show)
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
