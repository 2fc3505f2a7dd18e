"""Which option a reply in prose concludes with.

The last claim of a reply counts (``evals.replies.clauses`` says what claims), unless doubt follows or claims contradict
each other. Where nothing is claimed, an option is read that sentences state, or the only one that is not rejected.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from evals.replies.clauses import Event, Kind, events_of
from evals.replies.options import Options

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
_STATES: Final[tuple[Kind, ...]] = ("fact", "identity", "statement")


@dataclass(frozen=True)
class Conclusion:
    """What a reply concludes with; the rule of one without an option says why."""

    option: int | None
    rule: str
    """``decides``, ``bare``, ``states`` or ``left over``; ``two answers`` or ``no answer``."""


_TWO = Conclusion(None, "two answers")


def concluded(
    text: str, texts: Sequence[str], labels: Sequence[str] = (), stated: Stated = "only it", nouns: Sequence[str] = ()
) -> Conclusion:
    """Read a reply, or the part of it that holds the answer.

    Args:
        text: The reply.
        texts: What the options say.
        labels: What they are called, if they are.
        stated: Which sentences are answers though they decide nothing.
        nouns: Words that tell no options apart.
    """
    options = _options(tuple(texts), tuple(labels), tuple(nouns))
    events = list(events_of(text[-_LONGEST:], options))
    return (
        _by_claims(events)
        or _by_statements(events, _STATED[stated])
        or (None if options.yes_no else _by_elimination(events, len(texts)))
        or Conclusion(None, "no answer")
    )


@functools.lru_cache(maxsize=256)
def _options(texts: tuple[str, ...], labels: tuple[str, ...], nouns: tuple[str, ...]) -> Options:
    return Options(texts, labels, nouns)


def _by_claims(events: Sequence[Event]) -> Conclusion | None:
    """The last decision with what is said barely after it, or what is said barely; all that stands must agree."""
    claims = _places_of(events, "claim", "bare")
    doubts = _places_of(events, "doubt")
    if not claims:
        return _TWO if doubts else None
    last = claims[-1]
    if _is_doubted(events, last, doubts):
        return _TWO
    decisions = _places_of(events, "claim")
    if _changes([events[place] for place in decisions]) > _MOST_CHANGES:
        return _TWO
    rule, begin = "bare", 0
    if decisions:
        rule, begin = "decides", decisions[-1]
    standing = _standing(events, claims, begin)
    meant = _agreed(standing, events)
    if len(meant) != 1:
        return _TWO
    if _is_taken_back(meant, events, last, standing[-1].sentence):
        return _TWO
    return Conclusion(min(meant), rule)


def _is_doubted(events: Sequence[Event], last: int, doubts: Sequence[int]) -> bool:
    """Whether doubt follows the last claim, or stands in the sentence of one that is said barely: A or B, most likely A."""
    if not doubts:
        return False
    if doubts[-1] >= last:
        return True
    weighed = [events[place].sentence for place in doubts]
    return events[last].kind == "bare" and events[last].sentence in weighed


def _places_of(events: Sequence[Event], *kinds: Kind) -> list[int]:
    return [place for place, event in enumerate(events) if event.kind in kinds]


def _changes(decisions: Sequence[Event]) -> int:
    """How often one decision is followed by another one."""
    return sum(one.options.isdisjoint(other.options) for one, other in itertools.pairwise(decisions))


def _standing(events: Sequence[Event], claims: Sequence[int], decision: int) -> list[Event]:
    """The claims that hold at the end: from the last decision on, behind the last turn, and limited by no *but*."""
    begin = decision
    # What is decided in the same sentence holds too: "I choose red, I choose blue".
    while begin > 0 and events[begin - 1].sentence == events[decision].sentence and events[begin - 1].kind == "claim":
        begin -= 1
    turns = [place for place in range(decision, claims[-1]) if events[place].kind == "turn"]
    begin = max([begin, *turns])
    limited = {event.sentence for event in events if event.kind == "but"} - {events[claims[-1]].sentence}
    return [events[place] for place in claims if place >= begin and events[place].sentence not in limited]


def _is_taken_back(meant: frozenset[int], events: Sequence[Event], last: int, sentence: int) -> bool:
    """Whether a later sentence turns away from an option or states another one, or one from its own on rejects it.

    What ends with another one in words that are not known may replace it, too.
    """
    later = [event for event in events[last + 1 :] if event.sentence > sentence]
    turned = any(event.kind == "turn" for event in later)
    replacing = [event for event in later if event.kind in ("fact", "identity")]
    replacing += [event for event in events[last + 1 :] if event.kind == "ending"]
    replaced = any(event.options.isdisjoint(meant) for event in replacing)
    rejected = _rejected([event for event in events if event.sentence >= sentence])
    return turned or replaced or not meant.isdisjoint(rejected)


def _by_statements(events: Sequence[Event], kinds: tuple[Kind, ...]) -> Conclusion | None:
    """What sentences state that are answers; all must agree, and the last sentences say nothing else."""
    answers = _places_of(events, *kinds)
    if not any(events[place].kind in _STATES for place in answers):
        return None
    meant = _agreed([events[place] for place in answers], events)
    if len(meant) != 1:
        return _TWO
    if not meant.isdisjoint(_rejected(events)):
        return _TWO
    behind = events[answers[-1] + 1 :]
    if _places_of(behind, "turn", "but"):
        return _TWO
    # A later sentence speaks of another option.
    for place in _places_of(behind, "statement", "mention"):
        if behind[place].options.isdisjoint(meant):
            return _TWO
    return Conclusion(min(meant), "states")


def _by_elimination(events: Sequence[Event], count: int) -> Conclusion | None:
    """The only option that is not rejected, if none is spoken of otherwise."""
    rejected = _rejected(events)
    if len(rejected) != count - 1 or any(event.kind in (*_STATES, "mention") for event in events):
        return None
    return Conclusion((set(range(count)) - rejected).pop(), "left over")


def _rejected(events: Sequence[Event]) -> frozenset[int]:
    """The options that clauses reject, each by itself."""
    single = [event.options for event in events if event.kind == "reject" and len(event.options) == 1]
    return frozenset().union(*single)


def _agreed(answers: Sequence[Event], events: Sequence[Event]) -> frozenset[int]:
    """The options that all answers fit; of several, those that are not rejected elsewhere."""
    options = frozenset.intersection(*(answer.options for answer in answers))
    return options - _rejected(events) if len(options) > 1 else options
