"""What stands where in a clause: negations, a decision, an answer, what something is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evals.replies.options import Mention, Options
from evals.replies.words import ARTICLES, PUNCTUATION, cues, known_words, phrase, singular

_NOT: Final = cues("negates")
_AWAY: Final = cues("away")
_BREAKS: Final = cues("begins a clause")
_DECIDES: Final = cues("decides")
_URGES: Final = cues("urges")
_COMMENDS: Final = cues("commends")
_OPEN: Final = cues("open")
_ENDS_NEGATION: Final = _DECIDES | _URGES | {"is"}
_NOT_LOOKED_FOR: Final = cues("others")
_IS: Final = cues("is")
_ENGLISH: Final = cues("english")
_LONGEST_UNKNOWN: Final = 5
"""Words before a label up to which a clause may be a correction in words that are not known."""


def stands_beside(clause: Sequence[str], mention: Mention) -> bool:
    """Whether something beside or about an option is meant, not the option."""
    before = [token for token in clause[: mention.start] if token not in ARTICLES]
    return not _AWAY.isdisjoint(before[-1:])


def parted(clause: Sequence[str], mentions: Sequence[Mention], options: Options) -> tuple[list[Mention], list[Mention]]:
    """The mentions that a clause negates, and those that it does not.

    A negation holds for what follows it in a list, or for all that stands before it if nothing follows. Two are none.
    """
    negates = _NOT - options.known if options.yes_no else _NOT
    holding = _negations_holding(_gaps(clause, mentions), negates)
    refused = [mention for mention, count in zip(mentions, holding, strict=True) if count == 1]
    taken = [mention.options for mention in refused]
    chosen = []
    for mention, count in zip(mentions, holding, strict=True):
        if count == 0 and mention.options not in taken:
            chosen.append(mention)
    return refused, chosen


def _gaps(clause: Sequence[str], mentions: Sequence[Mention]) -> list[Sequence[str]]:
    """The words before each mention, from the one before it on, and those behind the last."""
    stops = [0, *(mention.stop for mention in mentions)]
    starts = [*(mention.start for mention in mentions), len(clause)]
    return [clause[stop:start] for stop, start in zip(stops, starts, strict=True)]


def _negations_holding(gaps: Sequence[Sequence[str]], negates: frozenset[str]) -> list[int]:
    """How many negations hold for each mention between gaps."""
    *before, behind = [sum(token in negates for token in gap) for gap in gaps]
    if not any(before):
        return [behind] * len(before)
    holding: list[int] = []
    holds = 0
    own = 0
    """How many mentions in a row have a negation of their own."""
    judged = not (negates | _COMMENDS).isdisjoint(gaps[-1])
    for gap, count in zip(gaps, before, strict=False):
        # "A is wrong and B is right": the negation belongs to what stands before it.
        if holding and judged and count == 1 and _says_of_the_last(gap, negates):
            holding[-1] = 1
            holding.append(behind)
            holds = own = 0
            continue
        # "Neither A nor B, C": where each has its own negation, what follows a comma without one is not negated.
        stands_alone = own > 1 and "," in gap[-1:]
        if count:
            holds = count
            own += 1
        # What is decided for or stated next is not negated any more.
        elif stands_alone or not _ENDS_NEGATION.isdisjoint(gap):
            holds = 0
            own = 0
        holding.append(holds)
    return holding


def _says_of_the_last(gap: Sequence[str], negates: frozenset[str]) -> bool:
    """Whether words between two mentions begin with a negation of the first: *is wrong and*, but not *is not the*."""
    words = [token for token in gap if token not in ("the", "an")]
    if words[:1] == ["is"]:
        words = words[1:]
    return len(words) > 1 and words[0] in negates


def others_of(clause: Sequence[str], mentions: Sequence[Mention], options: Options) -> list[str]:
    """The words of a clause that are no part of a mention and might say something."""
    inside = _taken_places(clause, mentions)
    others = []
    for place, token in enumerate(clause):
        if place in inside:
            continue
        says_nothing = options.is_filler(token) or options.is_vague(token)
        if not says_nothing:
            others.append(token)
    return others


def _taken_places(clause: Sequence[str], mentions: Sequence[Mention]) -> set[int]:
    """The places of a clause that belong to a mention, and that of the word that begins the clause."""
    inside: set[int] = set()
    if clause[0] in _BREAKS:
        inside.add(0)
    for mention in mentions:
        inside.update(range(mention.start, mention.stop))
        before = clause[mention.start - 1] if mention.start else ""
        # "not B", "rather than B": the word belongs to the option.
        if before in _NOT | _AWAY:
            inside.add(mention.start - 1)
        # A name in brackets stands behind the same name in another language.
        if before == "(" and not mention.label:
            inside |= {mention.start - 2, mention.start - 3}
    return inside


def is_unfinished(clause: Sequence[str]) -> bool:
    """Whether a clause breaks off, or begins with a person: it was going to say something of what it names."""
    broken_off = clause[-1] in _OPEN and clause[-2:] != ["it", "is"]
    person = clause[0] in ("it", "he", "she") and "is" not in clause[:2]
    return broken_off or person


def decides(clause: Sequence[str], start: int, stop: int, others: Sequence[str], options: Options) -> bool:
    """Whether a clause decides for what it names between two places."""
    if set(clause[stop:]) & _COMMENDS - options.known:
        return True
    # "I choose B" decides; "I think B is red" only says something of it.
    goes_on = not _IS.isdisjoint(clause[stop : stop + 1]) and not all(map(options.is_filler, clause[stop:]))
    before = set(clause[:start]) - options.known
    # "I'll pick up the pizza with label 0" names an action by its verb, whatever else it says.
    acts = any(clause[start] == phrase(text)[0] for text in options.texts)
    urges = not before.isdisjoint(_URGES) and (acts or not others)
    return not goes_on and (urges or not before.isdisjoint(_DECIDES))


def is_answer(clause: Sequence[str], label: Mention) -> bool:
    """Whether a label stands where answers stand: at the end of a clause behind *is*, *so*, a colon and their like."""
    if not label.label or not set(clause[label.stop :]) <= {"(", ",", "here", "first", "now"}:
        return False
    before = clause[label.start - 1] if label.start else ""
    if before == ":" and label.start == 2:  # Action: B, but not Piece: B
        return clause[0] in cues("called") or clause[0] in ("so", "now", "next")
    return before in _IS or before in cues("called") or before in ("so", ":", ",", "that's", "it's", "to", "with")


def ends_unknown(clause: Sequence[str], label: Mention, options: Options) -> bool:
    """Whether a clause ends with a label behind few words of which one is unknown, as a correction in another language may.

    What a sentence of English says of an option at its end is known well enough: *it opens the door of B*.
    """
    before = clause[: label.start]
    if label.stop != len(clause) or len(before) > _LONGEST_UNKNOWN or not _ENGLISH.isdisjoint(before):
        return False
    return any(_is_unknown(token, options) for token in before)


def _is_unknown(token: str, options: Options) -> bool:
    """Whether a word is neither one of the small English nor of the options."""
    if token in known_words() or token in PUNCTUATION or token.isdecimal():
        return False
    return singular(token) not in options.nouns and options.word(token) is None


def copula_before(clause: Sequence[str], stop: int) -> int:
    """The place of the last *is* or *has* before another place."""
    return max(place for place, token in enumerate(clause[:stop]) if token in _IS)


def is_complement(before: Sequence[str], options: Options) -> bool:
    """Whether only fillers stand between *is* and what follows these words."""
    for token in reversed(before):
        if token in _IS:
            return "there" not in before or options.numeric
        # "Panel 5 has two objects and panel 7 has three" says nothing of panel 7 before the "and".
        if token == "and" or not options.is_filler(token):
            return False
    return False


def is_looked_for(subject: Sequence[str], options: Options) -> bool:
    """Whether a subject is what the question looks for: *the bird*, *the only one that fits*, *the best test*."""
    words = [token for token in subject if token not in ("so", ",", "can", "must")]
    if words[:1] != ["the"] or len(words) < 2 or not _NOT_LOOKED_FOR.isdisjoint(words):
        return False
    for token in words:
        if options.word(token) and not options.is_vague(token) and token not in options.heads:
            return False
    praise = words[2] if words[1] == "most" and len(words) > 2 else words[1]
    described = len(words) > 3 and words[2].endswith("ed")  # the ship described by the log
    return praise in _COMMENDS or praise == "only" or len(words) == 2 or described
