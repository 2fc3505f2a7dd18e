"""Which option a reply in prose concludes with, for all suites.

The last claim of a reply counts (``evals.replies.clauses`` says what claims), unless doubt follows or claims
contradict each other.
Where nothing is claimed, an option is read that the last sentence states, or the only one not rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from evals.replies.clauses import Event, Kind, events_of
from evals.replies.naming import Options

_LONGEST: Final = 4000
"""Characters at the end of a reply that are looked at."""
_MOST_CHANGES: Final = 3
"""How often a reply may go from one claim to another; one that goes in circles does so more often."""

Stated = Literal["only it", "names", "anything"]
"""Which sentence that states something is an answer: *it is X*; *the bird is X* too; or any, as to a question."""
_STATED: Final[Mapping[Stated, tuple[Kind, ...]]] = {
    "only it": ("fact",),
    "names": ("fact", "identity"),
    "anything": ("fact", "identity", "statement", "mention"),
}


@dataclass(frozen=True)
class Conclusion:
    """What a reply concludes with; the rule of one without an option says why."""

    option: int | None
    rule: str
    """``decides``, ``bare``, ``states`` or ``left over``; ``two answers`` or ``no answer``."""


_TWO = Conclusion(None, "two answers")


def concluded(text: str, options: Sequence[str], labels: Sequence[str] = (), stated: Stated = "only it") -> Conclusion:
    """Read a reply, or the part of it that holds the answer.

    Args:
        text: The reply.
        options: What the options say.
        labels: What they are called, if by letters.
        stated: Which sentences are answers though they decide nothing.
    """
    named = Options(options, labels)
    events = list(events_of(text[-_LONGEST:], named))
    return (
        _last_claim(events)
        or _stated(events, stated)
        or _left_over(events, 0 if "yes" in named.sole else len(options))
        or Conclusion(None, "no answer")
    )


def _last_claim(events: Sequence[Event]) -> Conclusion | None:
    """The last decision with what is said barely after it, or what is said barely; all that stands must agree."""
    claims = [place for place, event in enumerate(events) if event.kind in ("claim", "bare")]
    if any(event.kind == "doubt" for event in events[claims[-1] if claims else 0 :]):
        return _TWO
    if not claims:
        return None
    decided = [place for place in claims if events[place].kind == "claim"]
    standing = _standing(events, claims, decided[-1] if decided else 0)
    meant = _common(standing, events)
    changes = sum(events[one].options.isdisjoint(events[other].options) for one, other in itertools.pairwise(decided))
    behind = events[claims[-1] + 1 :]
    if len(meant) != 1 or changes > _MOST_CHANGES or _taken_back(meant, events, behind, standing[-1].sentence):
        return _TWO
    return Conclusion(next(iter(meant)), "decides" if decided else "bare")


def _standing(events: Sequence[Event], claims: Sequence[int], first: int) -> list[Event]:
    """The claims that hold at the end: from the last decision on, behind the last turn, and not in doubt.

    What is decided in the same sentence as the last decision holds too.
    """
    turns = [place for place in range(first, claims[-1]) if events[place].kind == "turn"]
    doubtful = {event.sentence for event in events if event.kind == "but"} - {events[claims[-1]].sentence}
    begin = max([first, *turns])
    standing = [events[place] for place in claims if place >= begin and events[place].sentence not in doubtful]
    sentence = standing[-1].sentence
    if events[first].sentence != sentence:
        return standing
    return [*(event for event in events if event.kind == "claim" and event.sentence == sentence), *standing]


def _common(standing: Sequence[Event], events: Sequence[Event]) -> frozenset[int]:
    """The options that all these claims name; of several those that others single out and none rejects."""
    meant = frozenset.intersection(*(event.options for event in standing))
    for event in events:
        if len(meant) > 1 and event.kind in ("claim", "bare", "fact"):
            meant = meant & event.options or meant
    return _narrowed(meant, events)


def _taken_back(meant: frozenset[int], events: Sequence[Event], behind: Sequence[Event], sentence: int) -> bool:
    """Whether what is said from a sentence on rejects an option, or what follows it turns away or states another."""
    later = [event for event in behind if event.sentence > sentence]
    return (
        any(event.kind == "turn" for event in later)
        or any(_states(event) and event.options.isdisjoint(meant) for event in later)
        or bool(meant & _rejected([event for event in events if event.sentence >= sentence]))
    )


def _stated(events: Sequence[Event], stated: Stated) -> Conclusion | None:
    """What sentences state that are answers; all must agree, and the last sentences say nothing else."""
    kinds = _STATED[stated]
    facts = [place for place, event in enumerate(events) if event.kind in kinds]
    if not any(_states(events[place]) for place in facts):
        return None
    meant = _narrowed(frozenset.intersection(*(events[place].options for place in facts)), events)
    if len(meant) != 1 or meant & _rejected(events) or any(_goes_on(event, meant) for event in events[facts[-1] + 1 :]):
        return _TWO
    return Conclusion(next(iter(meant)), "states")


def _states(event: Event) -> bool:
    return event.kind in ("fact", "identity", "statement")


def _goes_on(event: Event, meant: frozenset[int]) -> bool:
    """Whether a reply goes on to something else than it has stated."""
    return event.kind in ("turn", "but") or (event.kind in ("statement", "mention") and event.options.isdisjoint(meant))


def _left_over(events: Sequence[Event], count: int) -> Conclusion | None:
    """The only option that is not rejected, if none is spoken of otherwise."""
    rejected = _rejected(events)
    if len(rejected) != count - 1 or any(_states(event) or event.kind == "mention" for event in events):
        return None
    return Conclusion((set(range(count)) - rejected).pop(), "left over")


def _rejected(events: Sequence[Event]) -> frozenset[int]:
    return frozenset(
        option for event in events if event.kind == "reject" and len(event.options) == 1 for option in event.options
    )


def _narrowed(options: frozenset[int], events: Sequence[Event]) -> frozenset[int]:
    """The options, if several, without those that are rejected elsewhere."""
    return options - _rejected(events) if len(options) > 1 else options
