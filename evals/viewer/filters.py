"""Which episodes a viewer asks for: from the address of a page to a condition in SQL, values apart from the text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from evals.viewer.runs import LISTED

CHOICES = ("run", "suite", "task", "level", "mode", "player", "status", "error_kind")
"""What can be chosen from a list of values."""
TAG = "tag"
"""Of the notes on an episode; chosen from a list, too."""
CELL = ("suite", "task", "level", "mode")
GAME = ("suite", "task", "level", "index", "seed")
"""What two episodes of one game have in common."""
PARTNER = " AND ".join(f'other."{name}" = episodes."{name}"' for name in (*GAME, "mode", "repeat"))
"""``other`` is the same game, asked in the same way and as often."""
RANGES = ("steps", "prompt_tokens", "completion_tokens", "reasoning_tokens", "seconds", "cost", "score")
"""What can be bounded: ``min_steps``, ``max_steps``, ..."""
FLAGS = {
    "won": "success",
    "lost": "success IS NOT TRUE AND status = 'done'",
    "not_won": "success IS NOT TRUE",
    "cut_off": "cut_off > 0",
}
OUTCOMES = {"won": "other.success", "not won": "other.success IS NOT TRUE"}
"""Of those that have played the same game."""
OF_THE_PAGE = frozenset({"at", "attempt", "from", "count", "sort", "panel", "across", "shown"})
"""What an address holds beside filters."""
CAUSE = r"regexp_replace(error, '0x[0-9a-f]+|\b[0-9a-f]{16,}\b|[0-9]+([.,:][0-9]+)*', '#', 'g')"
"""A cause of failure without the numbers in which its occurrences differ."""

Clause = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Filter:
    """Conditions that all hold; each setting with the values that were given for it."""

    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounds: tuple[tuple[str, str, float], ...] = ()
    flags: tuple[str, ...] = ()
    cause: str = ""
    id: str = ""
    """Beginning of an episode's id."""
    text: str = ""
    """What a prompt, reply or reasoning contains, in upper or lower case."""
    versus: tuple[str, str] = ("", "")
    """Run and player that have played the same game, too."""
    flipped: bool = False
    """Whether with another outcome only."""
    versus_outcome: str = ""
    """One of ``OUTCOMES``; empty for any."""

    def without(self, *names: str) -> Filter:
        """The same without the choices of these names."""
        return dataclasses.replace(self, choices=tuple(each for each in self.choices if each[0] not in names))

    def clause(self, run_number: Callable[[str], int], search: int | None = None) -> Clause:
        """The condition on the table ``episodes``, and the values of its placeholders.

        Args:
            run_number: The number of a run by its name.
            search: Number of the search for ``text`` in the table ``hits``.
        """
        parts: list[str] = ["latest"]
        values: list[Any] = []
        for name, chosen in self.choices:
            among = f'"{name}" IN ({", ".join("?" * len(chosen))})'
            if name == TAG:
                among = f"(run, episode_id) IN (SELECT (run, episode_id) FROM tags WHERE {among})"
            parts.append(among)
            values += [run_number(value) for value in chosen] if name == "run" else chosen
        for name, sign, bound in self.bounds:
            parts.append(f'"{name}" {sign} ?')
            values.append(bound)
        parts += [f"({FLAGS[flag]})" for flag in self.flags]
        if self.cause:
            parts.append(f"status = 'failed' AND {CAUSE} = ?")
            values.append(self.cause)
        if self.id:
            parts.append("starts_with(episode_id, ?)")
            values.append(self.id)
        if self.versus[1]:
            parts.append(self._has_partner())
            values += [run_number(self.versus[0]), self.versus[1]]
        if search is not None:
            parts.append("id IN (SELECT id FROM hits WHERE search = ?)")
            values.append(search)
        return " AND ".join(parts), tuple(values)

    def _has_partner(self) -> str:
        """The condition that a run and a player, which are its placeholders, have played the same game."""
        conditions = ["other.latest", "other.run = ?", "other.player = ?", "other.id <> episodes.id", PARTNER]
        if self.flipped:
            conditions.append("other.success IS DISTINCT FROM episodes.success")
        if self.versus_outcome:
            conditions.append(OUTCOMES[self.versus_outcome])
        return f"EXISTS (SELECT 1 FROM episodes AS other WHERE {' AND '.join(conditions)})"


def filter_of(given: Iterable[tuple[str, str]]) -> Filter:
    """The filter that the names and values of an address describe.

    Raises:
        ValueError: a name is no filter's and not one of ``OF_THE_PAGE``, or a bound is no number.
    """
    choices: dict[str, list[str]] = {}
    bounds, flags = [], []
    texts = {"cause": "", "id": "", "text": "", "versus": "", "versus_run": "", "flipped": "", "versus_outcome": ""}
    for name, value in given:
        edge, _, column = name.partition("_")
        if not value:
            continue
        if name in CHOICES or name == TAG:
            choices.setdefault(name, []).append(value)
        elif name in FLAGS:
            flags.append(name)
        elif name in texts:
            texts[name] = value
        elif edge in ("min", "max") and column in RANGES:
            comparison = ">=" if edge == "min" else "<="
            bounds.append((column, comparison, _number(name, value)))
        elif name not in OF_THE_PAGE:
            known = [*CHOICES, TAG, *FLAGS, *texts]
            for column in RANGES:
                known += [f"min_{column}", f"max_{column}"]
            raise ValueError(f"there is no filter {name!r}; there are {', '.join(known)}")
    chosen = tuple((name, tuple(dict.fromkeys(values))) for name, values in sorted(choices.items()))
    versus = (texts.pop("versus_run"), texts.pop("versus"))
    flipped = bool(texts.pop("flipped"))
    if texts["versus_outcome"] not in ("", *OUTCOMES):
        raise ValueError(f"versus_outcome: is one of {', '.join(OUTCOMES)}")
    return Filter(chosen, tuple(bounds), tuple(dict.fromkeys(flags)), **texts, versus=versus, flipped=flipped)


def order_of(given: str) -> str:
    """An SQL order for ``column`` or ``-column``; the order of the ledger for none.

    Raises:
        ValueError: there is no such column.
    """
    column = given.removeprefix("-")
    if not column:
        return "id"
    if column not in (*LISTED, "run"):
        raise ValueError(f"sort: there is no column {column!r}")
    return f'"{column}" {"DESC" if given.startswith("-") else "ASC"} NULLS LAST, id'


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name}: {value!r} is not a number") from None
